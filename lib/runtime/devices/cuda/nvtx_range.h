#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace autopar::runtime::cuda {

/// Names what this thread launches while it lives, for NVIDIA's profilers.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace autopar::runtime::cuda
