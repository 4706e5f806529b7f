# Run by CPack before it packs what is staged: what Debian's packages have otherwise than an
# installation from source.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(name_of_program autopar)
set(name_of_mpi autopar-mpi)
set(name_of_development libautopar-dev)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(package ${name_of_${component}})
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  set(pages ${share}/doc/${package})
  file(MAKE_DIRECTORY ${pages})
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright ${CMAKE_CURRENT_LIST_DIR}/changelog
    DESTINATION ${pages})
  execute_process(COMMAND gzip -9nf ${pages}/changelog COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides)
    file(MAKE_DIRECTORY ${share}/lintian/overrides)
    file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides
      ${share}/lintian/overrides/${package})
  endif()
endforeach()

set(usr ${CPACK_TEMPORARY_DIRECTORY}/program/usr)
file(REMOVE ${usr}/share/doc/autopar/LICENSE)  # the file copyright tells where Debian has it
file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
# The loader looks where Debian's libraries are without being told.
file(GLOB binaries ${usr}/bin/autopar ${usr}/lib/libautopar_*.so.*
  ${CPACK_TEMPORARY_DIRECTORY}/mpi/usr/lib/autopar/*.so)
foreach(binary IN LISTS binaries)
  file(RPATH_REMOVE FILE ${binary})
endforeach()
