#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "runtime/devices/cuda/handles.h"

namespace autopar::runtime::cuda {

/// The first index out of range that a kernel met, in memory that host and device share.
struct Fault {
  unsigned int node = 0;  ///< 0: none; else one more than the index of the node
  unsigned int unused = 0;
  long long index = 0;
  long long extent = 0;
};

/// Where a kernel reports an index out of range; it must not use the index.
struct FaultSlot {
  Fault* fault = nullptr;
  unsigned int node = 0;

#if defined(__CUDACC__) || defined(AUTOPAR_EMULATED_CUDA)
  __device__ void report(long long index, long long extent) const {
    if (atomicCAS(&fault->node, 0U, node) != 0U) return;
    fault->index = index;
    fault->extent = extent;
  }
#endif
};

/// The faults of one device's kernels.
class Faults {
 public:
  /// Names the kernel that serves this node.
  FaultSlot slot(const std::string& node);
  /// After a run: throws Error naming the node and the index, and forgets it.
  void throw_if_any();

 private:
  Mapped<Fault> fault_{"memory for faults"};
  std::vector<std::string> nodes_;
};

}  // namespace autopar::runtime::cuda
