# Writes onnx_schemas.inc: of each version of each operator that ONNX's headers declare, its name
# and the function that makes its schema.
set(AUTOPAR_ONNX_SCHEMAS_DIR ${CMAKE_BINARY_DIR}/onnx_schemas)
set(rows)
foreach(header operator_sets.h operator_sets_ml.h operator_sets_preview.h)
  file(STRINGS ${AUTOPAR_ONNX_DIR}/include/onnx/defs/${header} declarations
    REGEX "^class ONNX[A-Z_]*CLASS_NAME\\(")
  foreach(declaration IN LISTS declarations)
    string(REGEX REPLACE "^class (.*, ([A-Za-z0-9_]+)\\)).*$"
      "{\"\\2\", onnx::GetOpSchema<onnx::\\1>},\n" row "${declaration}")
    string(APPEND rows "${row}")
  endforeach()
endforeach()
if(NOT rows)
  message(FATAL_ERROR "${AUTOPAR_ONNX_DIR} declares no operators as onnx_schemas.cmake expects")
endif()
file(CONFIGURE OUTPUT ${AUTOPAR_ONNX_SCHEMAS_DIR}/onnx_schemas.inc CONTENT "${rows}" @ONLY)
