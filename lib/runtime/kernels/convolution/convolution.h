#pragma once

#include "runtime/kernels/convolution/windows.h"

namespace autopar::runtime {

/// What a Conv or ConvTranspose asks for. Weights are [out channel, channel of the group, taps]; of
/// ConvTranspose [channel, out channel of the group, taps].
struct Convolution {
  Slide slide;
  std::int64_t groups = 1;
  bool has_bias = false;
};

/// Throw Error naming the node where groups and channels do not fit.
Convolution convolution_of(const KernelRequest& request);
Convolution transposed_convolution_of(const KernelRequest& request);

/// A Conv's weights as oneDNN has them, with the groups as a dimension of their own.
Shape grouped_weights(const Shape& stored, const Convolution& convolution);

/// What a convolution computes with, over three spatial dimensions at most. Windows of
/// ConvTranspose slide over its output.
struct ConvolutionSizes {
  Windows windows;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;
  bool has_bias = false;
};

/// Windows over `seen`, one for each place of `windows`.
ConvolutionSizes sizes_of(const KernelRequest& request, const Convolution& convolution,
                          const TensorView& seen, const TensorView& windows);
/// Throw Error, too, for a type that is no float.
ConvolutionSizes convolution_sizes(const KernelRequest& request);
ConvolutionSizes transposed_convolution_sizes(const KernelRequest& request);

}  // namespace autopar::runtime
