#pragma once

#include <memory>
#include <optional>

#include "graph/tensor.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {

/// A tensor's way from one layout into another; empty where they are the same.
class Reordering {
 public:
  Reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  bool is_needed() const { return primitive_.has_value(); }
  /// Bytes of the tensor in its new layout, 0 where there is none; a multiple of 64.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t scratch_bytes() const { return primitive_ ? primitive_->scratch_bytes() : 0; }
  void run(const void* from, void* to, std::byte* scratch);

 private:
  std::optional<OnednnPrimitive> primitive_;
  std::int64_t bytes_ = 0;
};

/// Memory of the device with what lies at `data` in another layout; null where that is the same.
std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const void* data, const dnnl::memory::desc& to);

/// The same of a constant's matrix, which is read from its file part by part, so that it is not in
/// memory twice. `from`: how it lies, row by row or column by column. Null, too, where `to` cannot
/// be written in parts.
std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const graph::Tensor& matrix,
                                          const dnnl::memory::desc& to);

}  // namespace autopar::runtime::cpu
