#include "runtime/kernels/convolution/folding.h"

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

TransposedConvolution::TransposedConvolution(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
  const Convolution convolution = transposed_convolution_of(request);
  const TensorView& in = request.inputs[0];
  const TensorView& out = request.outputs[0];
  windows = windows_of(request, places_of(out), places_of(in), places_of(request.inputs[1]),
                       convolution.slide);
  images = in.shape[0];
  channels = in.shape[1];
  out_channels = out.shape[1];
  groups = convolution.groups;
  has_bias = convolution.has_bias;
}

}  // namespace autopar::runtime
