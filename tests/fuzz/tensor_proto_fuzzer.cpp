#include "fuzzer.h"
#include "graph/onnx/onnx_tensor_file.h"

void autopar::fuzz::try_input(Bytes input) { graph::load_tensor_proto(file_of(input)); }
