#pragma once

#include <cuda_runtime.h>

namespace autopar::runtime::cuda {

/// Joins the stream: writes to memory of the host, given by its device pointer, so that the host
/// can read it while the stream goes on.
void write_mark(cudaStream_t stream, unsigned* mark, unsigned value);

/// Loads its kernel (see CudaRunner).
void load_write_mark();

}  // namespace autopar::runtime::cuda
