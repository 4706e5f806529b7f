#pragma once

#include "graph/arena.h"
#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"

/// Half types compute in float: their tensors are converted on the way in and out.
namespace autopar::runtime::cpu {

/// Scratch bytes that a tensor's copy in floats takes, a multiple of 64.
inline std::int64_t float_bytes(const TensorView& view) {
  return is_half(view.type) ? graph::aligned(view.elements() * 4) : 0;
}

/// The same for all tensors of a node.
inline std::int64_t float_bytes(const KernelRequest& request) {
  std::int64_t bytes = 0;
  for (const TensorView& view : request.inputs) bytes += float_bytes(view);
  for (const TensorView& view : request.outputs) bytes += float_bytes(view);
  return bytes;
}

/// `n` halves as floats, and the reverse: the nearest half, the even one of two.
void widen(const Float16* from, std::int64_t n, float* to);
void widen(const BFloat16* from, std::int64_t n, float* to);
void narrow(const float* from, std::int64_t n, Float16* to);
void narrow(const float* from, std::int64_t n, BFloat16* to);

/// Nothing is done for types other than half ones. Large tensors are shared by all threads that
/// OpenMP may have.
void widen_halves(const TensorView& view, float* copy);
void narrow_to_halves(const float* copy, const TensorView& view);

/// The tensors of one run as floats: float32 where it lies, half types in `memory`, which has
/// float_bytes() bytes.
class FloatCopies {
 public:
  explicit FloatCopies(std::byte* memory) : memory_(memory) {}

  const float* load(const TensorView& view) {
    float* copy = target(view);
    widen_halves(view, copy);
    return copy;
  }

  /// Where an output is computed to, before store().
  float* target(const TensorView& view) {
    auto* copy = is_half(view.type) ? reinterpret_cast<float*>(memory_) : view.as<float>();
    memory_ += float_bytes(view);
    return copy;
  }

  static void store(const float* copy, const TensorView& view) { narrow_to_halves(copy, view); }

 private:
  std::byte* memory_;
};

}  // namespace autopar::runtime::cpu
