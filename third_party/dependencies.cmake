# How each dependency is found. All come from package registries: Debian's, and for ONNX's C++
# library the Python one (see build_onnx.sh). Nothing is vendored.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})

find_package(Protobuf REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
# spdlog's library has queues of threads, which nothing here uses, and with them needs GCC 12's
# run-time library. A package for other machines takes its headers alone.
add_library(autopar_log INTERFACE)
if(AUTOPAR_PORTABLE)
  target_link_libraries(autopar_log INTERFACE spdlog::spdlog_header_only)
else()
  target_link_libraries(autopar_log INTERFACE spdlog::spdlog)
endif()
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED)  # Beast's headers alone, for HTTP
find_package(Catch2 REQUIRED)
include(Catch)
add_library(autopar_catch INTERFACE)
target_link_libraries(autopar_catch INTERFACE Catch2::Catch2)
if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
  target_include_directories(autopar_catch INTERFACE ${CMAKE_SOURCE_DIR}/tests/catch2_3)
  target_link_libraries(autopar_catch INTERFACE Catch2::Catch2WithMain)
endif()
find_package(dnnl REQUIRED)
find_package(mimalloc REQUIRED)  # 2 or 3
set(MPI_CXX_SKIP_MPICXX ON)  # C alone: newer MPIs have no C++ library
find_package(MPI COMPONENTS CXX)  # without it there is no plugin for mpirun
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)  # HMAC and TLS between ranks

# Debian ships these two without a CMake package.
function(autopar_find_library target header library)
  find_path(${library}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${library}_LIBRARY ${library} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${library}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${${library}_INCLUDE_DIR})
endfunction()
autopar_find_library(GLPK::glpk glpk.h glpk)
autopar_find_library(xxHash::xxhash xxhash.h xxhash)

# ONNX is built once, outside the build tree, so that every later build reuses it.
set(AUTOPAR_ONNX_VERSION 1.23.2)
if(DEFINED ENV{XDG_CACHE_HOME})
  set(AUTOPAR_CACHE_DIR $ENV{XDG_CACHE_HOME}/autopar CACHE PATH "Where built dependencies are kept")
else()
  set(AUTOPAR_CACHE_DIR $ENV{HOME}/.cache/autopar CACHE PATH "Where built dependencies are kept")
endif()
set(AUTOPAR_ONNX_DIR ${AUTOPAR_CACHE_DIR}/onnx-${AUTOPAR_ONNX_VERSION})
if(NOT EXISTS ${AUTOPAR_ONNX_DIR}/lib/cmake/ONNX/ONNXConfig.cmake)
  message(NOTICE "Building ONNX ${AUTOPAR_ONNX_VERSION} into ${AUTOPAR_ONNX_DIR} (once, minutes)")
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/build_onnx.sh ${AUTOPAR_ONNX_VERSION} ${AUTOPAR_ONNX_DIR}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
find_package(ONNX ${AUTOPAR_ONNX_VERSION} REQUIRED PATHS ${AUTOPAR_ONNX_DIR} NO_DEFAULT_PATH)
# Its CMake package leaves the headers' folder out.
target_include_directories(ONNX::onnx SYSTEM INTERFACE ${AUTOPAR_ONNX_DIR}/include)
include(${CMAKE_CURRENT_LIST_DIR}/onnx_schemas.cmake)

include(${CMAKE_CURRENT_LIST_DIR}/onnx_runtime.cmake)
