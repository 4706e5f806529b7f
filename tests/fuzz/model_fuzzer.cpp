#include "fuzzer.h"
#include "model_trial.h"

/// The bytes as an ONNX file, be they a message or not.
void autopar::fuzz::try_input(Bytes input) { try_model(file_of(input)); }
