# The C header that libautopar_ort.so is compiled with, ONNX Runtime's own: of a system package, or of
# Debian's next release, fetched once into AUTOPAR_CACHE_DIR. The library itself is the user's. Sets
# AUTOPAR_HAS_ONNX_RUNTIME.
set(headers ${AUTOPAR_CACHE_DIR}/onnxruntime-headers)
function(autopar_find_onnx_runtime)
  find_path(ONNX_RUNTIME_INCLUDE_DIR onnxruntime_c_api.h HINTS ${headers}
    PATH_SUFFIXES onnxruntime onnxruntime/core/session)
endfunction()
autopar_find_onnx_runtime()
if(NOT ONNX_RUNTIME_INCLUDE_DIR)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/fetch_onnx_runtime_headers.sh ${headers})
  autopar_find_onnx_runtime()
endif()

set(AUTOPAR_HAS_ONNX_RUNTIME OFF)
if(ONNX_RUNTIME_INCLUDE_DIR)
  file(STRINGS ${ONNX_RUNTIME_INCLUDE_DIR}/onnxruntime_c_api.h version
    REGEX "#define ORT_API_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+$" version "${version}")
  if(version GREATER_EQUAL 18)
    set(AUTOPAR_HAS_ONNX_RUNTIME ON)
    add_library(ONNXRuntime::headers INTERFACE IMPORTED)
    target_include_directories(ONNXRuntime::headers SYSTEM INTERFACE ${ONNX_RUNTIME_INCLUDE_DIR})
  endif()
endif()
if(NOT AUTOPAR_HAS_ONNX_RUNTIME)
  message(NOTICE "Without the library for ONNX Runtime: no onnxruntime_c_api.h of 1.18 or newer was found")
endif()
