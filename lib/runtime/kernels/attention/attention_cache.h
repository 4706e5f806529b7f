#pragma once

#include <array>
#include <memory>

#include "runtime/device.h"
#include "runtime/kernels/attention/attention.h"

namespace autopar::runtime {

/// Puts an Attention's past and this step's keys and values together, for all devices: in its
/// outputs, or in scratch memory where the node has none.
class AttentionCache {
 public:
  AttentionCache() = default;
  /// `problem.k` and `problem.v` become the layouts of what join() makes.
  AttentionCache(const KernelRequest& request, AttentionProblem& problem);

  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  struct Joined {
    TensorView keys;
    TensorView values;
  };
  Joined join(const KernelIo& io, std::byte* scratch) const;

 private:
  struct Side {
    Shape shape;
    std::unique_ptr<StridedCopy> past;
    std::unique_ptr<StridedCopy> present;
    std::int64_t past_elements = 0;  ///< of a head
    bool has_output = false;
  };
  TensorView join(const Side& side, const KernelIo& io, std::size_t input, std::size_t past,
                  std::size_t output, std::byte*& scratch) const;

  std::array<Side, 2> sides_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace autopar::runtime
