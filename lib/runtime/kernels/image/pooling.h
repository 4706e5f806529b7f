#pragma once

#include <array>

#include "runtime/kernels/convolution/windows.h"

/// What AveragePool, MaxPool and LpPool ask for.
namespace autopar::runtime {

struct Pooling {
  Slide slide;
  Shape taps;
  Windows windows;
  /// How far the node's own padding goes along each dimension, counted from the image's first
  /// place; with ceil_mode windows may reach beyond it.
  std::array<int, Windows::dimensions> padded_ends = {1, 1, 1};
  /// Whether every window sees something of the image.
  bool sees_image = true;

  explicit Pooling(const KernelRequest& request);
};

}  // namespace autopar::runtime
