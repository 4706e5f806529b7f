# What find_package(autopar) reads, in lib/cmake/autopar of an installation. autopar::runtime runs
# bundles, autopar::planner makes them, too; neither asks for anything else to compile.
get_filename_component(autopar_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
foreach(name runtime planner)
  if(NOT TARGET autopar::${name})
    add_library(autopar::${name} SHARED IMPORTED)
    set_target_properties(autopar::${name} PROPERTIES
      IMPORTED_LOCATION ${autopar_prefix}/lib/libautopar_${name}.so
      INTERFACE_INCLUDE_DIRECTORIES ${autopar_prefix}/include
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endforeach()
set_property(TARGET autopar::planner PROPERTY INTERFACE_LINK_LIBRARIES autopar::runtime)
