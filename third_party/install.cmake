# What `cmake --install` and the package hold: bin/autopar, its libraries in lib with their headers in
# include/autopar and what find_package(autopar) reads, its plugins in lib/autopar, and the pages.
# AUTOPAR_GPU_CHECK adds the programs that scripts/gpu_check runs.
# AUTOPAR_PORTABLE adds, in lib, the shared libraries that the program needs, for machines without
# them, with their licences; what a plugin alone needs (CUDA, NCCL, MPI) is the machine's own, and so
# are glibc and GCC's run-time libraries.
# Debian's packages have a component each: program, mpi (its plugin), and development.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)

# autopar_install(): once every target is made.
function(autopar_install)
  get_property(plugins TARGET autopar_plugins PROPERTY MANUALLY_ADDED_DEPENDENCIES)
  if(plugins)
    # As a RUNPATH, the libraries beside the program, the folders that they were linked from, and for
    # CUDA NVIDIA's usual one, come after LD_LIBRARY_PATH.
    foreach(plugin ${plugins})
      set(folders "$ORIGIN/..")
      if(plugin MATCHES "_(cuda|nccl)$")
        list(APPEND folders /usr/local/cuda/lib64)
      endif()
      set_target_properties(${plugin} PROPERTIES
        INSTALL_RPATH_USE_LINK_PATH ON INSTALL_RPATH "${folders}")
      set(component program)
      if(plugin STREQUAL autopar_mpi)
        set(component mpi)
      endif()
      install(TARGETS ${plugin} LIBRARY DESTINATION lib/autopar COMPONENT ${component})
    endforeach()
  endif()
  install(FILES README.md ARCHITECTURE.md LICENSE DESTINATION share/doc/autopar)
  install(DIRECTORY docs DESTINATION share/doc/autopar)
  file(GLOB_RECURSE schemas CONFIGURE_DEPENDS lib/*.schema.json apps/*.schema.json)
  install(FILES ${schemas} DESTINATION share/autopar/schemas)
  # What libraries of operators are compiled with (docs/operators-of-your-own.md).
  install(FILES lib/graph/operators/autopar_operator.h DESTINATION include/autopar
    COMPONENT development)
  # The program prints them of its options.
  install(CODE "set(printer $<TARGET_FILE:autopar>)")
  install(SCRIPT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_texts.cmake)
  autopar_install_libraries()
  set(programs autopar)
  if(AUTOPAR_GPU_CHECK)
    list(APPEND programs onnx_conformance run_shards gpu_kernel_test)
  endif()
  set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  if(NOT AUTOPAR_PORTABLE)
    install(TARGETS ${programs} RUNTIME DESTINATION bin)
    return()
  endif()

  # As an RPATH, it holds for what the libraries beside the program and the plugins need too.
  set(libraries autopar_planner_library autopar_runtime_library)
  foreach(target ${programs} ${libraries})
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endforeach()
  install(TARGETS ${programs} ${libraries} RUNTIME_DEPENDENCY_SET needed
    RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
  # glibc's parts belong together, and to the machine. Of GCC's libraries a process has but one, which
  # other parts of it, such as Python's modules, need as new as they were built with.
  install(RUNTIME_DEPENDENCY_SET needed
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util)[.]so"
      "^lib(stdc[+][+]|gcc_s)[.]so"
    LIBRARY DESTINATION lib)
  install(FILES ${AUTOPAR_ONNX_DIR}/share/doc/onnx/LICENSE DESTINATION share/doc/autopar/licences
    RENAME onnx OPTIONAL)
  set(charts "")
  if(CHART_JS)
    set(charts */chart.js/chart.min.js)  # lib/planner/report/page_files.cmake
  endif()
  install(CODE "set(architecture ${CMAKE_LIBRARY_ARCHITECTURE})
    set(notice_files */CLI11Config.cmake */nlohmann_jsonConfig.cmake */boost/version.hpp ${charts})")
  install(SCRIPT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_notices.cmake)
endfunction()

# Headers that programs outside may include, by their places in lib. Beside each other in
# include/autopar, they include each other from there.
set(AUTOPAR_PUBLIC_HEADERS
  base/error_types.h
  base/mapped_file.h
  base/progress.h
  base/work_signs.h
  bundle/collective_total.h
  graph/data_type.h
  graph/tensor.h
  planner/calibration.h
  planner/planner.h
  planner/shape_source.h
  planner/verify.h
  runtime/named_tensors.h
  runtime/session.h
  runtime/session_options.h
  runtime/span.h)

function(autopar_install_libraries)
  include(CMakePackageConfigHelpers)
  set(libraries autopar_planner_library autopar_runtime_library)
  set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
  if(NOT AUTOPAR_PORTABLE)
    install(TARGETS ${libraries} LIBRARY DESTINATION lib NAMELINK_COMPONENT development)
  endif()
  set(version_file ${CMAKE_BINARY_DIR}/autoparConfigVersion.cmake)
  write_basic_package_version_file(${version_file} COMPATIBILITY ExactVersion)
  install(FILES ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/autoparConfig.cmake ${version_file}
    DESTINATION lib/cmake/autopar COMPONENT development)
  install(CODE "set(source ${CMAKE_SOURCE_DIR}/lib)
    set(headers ${AUTOPAR_PUBLIC_HEADERS})" COMPONENT development)
  install(SCRIPT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/install_headers.cmake COMPONENT development)
endfunction()

# autopar_package(): what `cpack` makes of that.
function(autopar_package)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME autopar-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_STRIP_FILES ON)
  set(CPACK_THREADS 0)
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/debian.cmake)
  include(CPack)
endfunction()
