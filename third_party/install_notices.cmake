# Run at installation: the licences of what the folder holds of others, into share/doc/autopar, as
# Debian's packages tell them. `autopar_notice_files` lists a file of each package that is compiled
# in; of the shared libraries in lib, the package is asked for.
set(prefix $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
set(notices ${prefix}/share/doc/autopar/licences)
find_program(dpkg_query dpkg-query)
if(NOT dpkg_query)
  message(WARNING "No dpkg-query: add the licences of the libraries in ${prefix}/lib yourself")
  return()
endif()

file(GLOB libraries ${prefix}/lib/*.so*)
foreach(file IN LISTS autopar_notice_files libraries)
  # By name alone: packages may list /lib for what lies in /usr/lib.
  get_filename_component(name ${file} NAME)
  execute_process(COMMAND ${dpkg_query} --search */${name} OUTPUT_VARIABLE found ERROR_QUIET)
  string(REGEX MATCH "^[^:,\n]+" package "${found}")
  set(copyright /usr/share/doc/${package}/copyright)
  if(NOT package OR NOT EXISTS ${copyright})
    message(WARNING "No Debian package tells the licence of ${name}")
    continue()
  endif()
  file(COPY_FILE ${copyright} ${notices}/${package} ONLY_IF_DIFFERENT)
  # They refer to the texts of common licences.
  file(READ ${copyright} text)
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9]+(-[0-9]+(\\.[0-9]+)?)?" texts "${text}")
  foreach(common IN LISTS texts)
    if(EXISTS ${common})
      file(COPY ${common} DESTINATION ${notices}/common-licenses FOLLOW_SYMLINK_CHAIN)
    endif()
  endforeach()
endforeach()
