#pragma once

#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {

/// A Conv's weights as oneDNN has them, with the groups as a dimension of their own.
Shape grouped_weights(const Shape& stored, const Convolution& convolution);

/// A convolution of input 0 with input 1 in float32, float16 or bfloat16 by oneDNN, in the layouts
/// that are fastest: constant weights are brought into theirs once, when the kernel is made.
/// `weights` is how oneDNN's dimensions of the weights lie in the node's. Forward is
/// dnnl::convolution_forward or dnnl::deconvolution_forward.
template <typename Forward>
std::unique_ptr<Kernel> make_onednn_convolution(const KernelRequest& request, const Slide& slide,
                                                const dnnl::memory::desc& weights);

}  // namespace autopar::runtime::cpu
