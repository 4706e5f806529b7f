#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What a Conv asks for, whatever its padding was written as. Images are [image, channel, places],
/// weights [out channel, channel of the group, taps]; lists have one entry a spatial dimension.
struct Convolution {
  std::int64_t groups = 1;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> begin_pads;
  /// What the last window needs; it may be less than the node's own, or negative.
  std::vector<std::int64_t> end_pads;
  bool has_bias = false;
};

Convolution convolution_of(const KernelRequest& request);

}  // namespace autopar::runtime
