#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device.h"

namespace autopar::runtime::cuda {

/// As StridedCopy tells, by one kernel.
class CudaStridedCopy final : public StridedCopy {
 public:
  CudaStridedCopy(Shape shape, std::vector<std::int64_t> in_strides,
                  std::vector<std::int64_t> out_strides, int element_bytes);
  void run(const std::byte* in, std::byte* out, void* stream) const override;

 private:
  Shape shape_;
  std::vector<std::int64_t> in_strides_;
  std::vector<std::int64_t> out_strides_;
  int element_bytes_;
};

}  // namespace autopar::runtime::cuda
