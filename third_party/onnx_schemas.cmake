# Writes onnx_schemas.inc: the domain and name of each version of each operator that ONNX's headers
# declare, in this order, the opset that it came with, and the function that makes its schema.
set(AUTOPAR_ONNX_SCHEMAS_DIR ${CMAKE_BINARY_DIR}/onnx_schemas)
set(headers operator_sets.h operator_sets_ml.h operator_sets_preview.h)
set(domains "" ai.onnx.ml ai.onnx.preview)
set(rows)
foreach(header domain IN ZIP_LISTS headers domains)
  file(STRINGS ${AUTOPAR_ONNX_DIR}/include/onnx/defs/${header} declarations
    REGEX "^class ONNX[A-Z_]*CLASS_NAME\\(")
  foreach(declaration IN LISTS declarations)
    string(REGEX REPLACE "^class (.*[(, ]([0-9]+), ([A-Za-z0-9_]+)\\)).*$"
      "{\"${domain}\", \"\\3\", \\2, onnx::GetOpSchema<onnx::\\1>}," row "${declaration}")
    list(APPEND rows "${row}")
  endforeach()
endforeach()
if(NOT rows)
  message(FATAL_ERROR "${AUTOPAR_ONNX_DIR} declares no operators as onnx_schemas.cmake expects")
endif()
list(SORT rows)
list(JOIN rows "\n" rows)
file(CONFIGURE OUTPUT ${AUTOPAR_ONNX_SCHEMAS_DIR}/onnx_schemas.inc CONTENT "${rows}\n" @ONLY)
