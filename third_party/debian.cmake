# Debian's packages, told once every target is made: `cpack -G DEB` in a build folder makes autopar,
# autopar-mpi (the plugin for mpirun) and libautopar-dev, which depend on Debian's packages of what
# they link.
set(CPACK_COMPONENTS_ALL program mpi development)
if(NOT TARGET autopar_mpi)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The maintainers of autopar <maintainers@autopar.invalid>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/arrange.cmake)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME autopar)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "autopar-mpi, libautopar-dev")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/triggers)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
"splits ONNX models over several devices and runs them
autopar finds the best way to split an ONNX model over several CPUs or GPUs,
writes an ONNX file for each, and runs them.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME autopar-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "autopar (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_MPI_DESCRIPTION
"ranks of autopar under mpirun
With this plugin, autopar runs as one rank of several that mpirun or srun has
started.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libautopar-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "autopar (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"autopar as a library of C++
The headers, and what CMake's find_package reads, for programs that split and
run ONNX models.")
