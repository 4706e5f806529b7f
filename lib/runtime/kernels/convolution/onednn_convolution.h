#pragma once

#include <functional>
#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {

/// A Conv's weights as oneDNN has them, with the groups as a dimension of their own.
Shape grouped_weights(const Shape& stored, const Convolution& convolution);

/// Layouts of a convolution's tensors. A desc of format `any` lets oneDNN choose.
struct ConvolutionLayouts {
  dnnl::memory::desc in;
  dnnl::memory::desc weights;
  dnnl::memory::desc bias;  ///< an empty one where there is none
  dnnl::memory::desc out;
};

/// Describes a convolution, or deconvolution, of tensors of these layouts.
using DescribeConvolution = std::function<dnnl::primitive_desc(const ConvolutionLayouts& layouts)>;

/// A convolution of input 0 with input 1 in float32, float16 or bfloat16 by oneDNN, in the layouts
/// that are fastest: constant weights are brought into theirs once, when the kernel is made.
/// `weights` is how oneDNN's dimensions of the weights lie in the node's.
std::unique_ptr<Kernel> make_onednn_convolution(const KernelRequest& request,
                                                const dnnl::memory::desc& weights,
                                                const DescribeConvolution& describe);

}  // namespace autopar::runtime::cpu
