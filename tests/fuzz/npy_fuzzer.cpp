#include "fuzzer.h"
#include "runtime/tensor_files.h"

void autopar::fuzz::try_input(Bytes input) { runtime::load_npy(file_of(input)); }
