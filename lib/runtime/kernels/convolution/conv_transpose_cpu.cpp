// ConvTranspose by oneDNN in float32, by loops where it has no such form.

#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/convolution/onednn_convolution.h"
#include "runtime/kernels/cpu/converted.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

/// oneDNN's [group, out channel, channel, taps], of which the node has channels before out
/// channels.
memory::desc described_weights(const KernelRequest& request, const Convolution& convolution) {
  const Shape& stored = request.inputs[1].shape;
  const Shape strides = row_major_strides(stored);
  memory::dims dims{stored[1], stored[0] / convolution.groups};
  memory::dims steps{strides[1], strides[0]};
  dims.insert(dims.end(), stored.begin() + 2, stored.end());
  steps.insert(steps.end(), strides.begin() + 2, strides.end());
  if (convolution.groups > 1) {
    dims.insert(dims.begin(), convolution.groups);
    steps.insert(steps.begin(), stored[0] / convolution.groups * strides[0]);
  }
  return {dims, memory::data_type::f32, steps};
}

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  const bool is_empty = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0 ||
                        request.outputs[0].elements() == 0;
  if ((type != DataType::float32 && !is_half(type)) || is_empty)
    return make_conv_transpose_loops(request);
  try {
    const Convolution convolution = transposed_convolution_of(request);
    return make_onednn_convolution<dnnl::deconvolution_forward>(
        request, convolution.slide, described_weights(request, convolution));
  } catch (const dnnl::error&) {
    return make_conv_transpose_loops(request);
  }
}

}  // namespace autopar::runtime::cpu
