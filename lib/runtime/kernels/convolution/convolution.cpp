#include "runtime/kernels/convolution/convolution.h"

#include "base/error.h"

namespace autopar::runtime {
namespace {

Convolution without_slide(const KernelRequest& request) {
  Convolution convolution;
  if (request.inputs[0].shape.size() < 2 || request.inputs[1].shape.size() < 2)
    fail("node '{}': {} wants images and weights of at least two dimensions", request.node.name,
         qualified_op_type(request.node));
  convolution.groups = request.node.int_attribute("group", 1);
  convolution.has_bias = request.inputs.size() > 2 && request.inputs[2].present();
  return convolution;
}

/// `channels` are those that groups divide, `in_group` those of one group in the weights.
void check_channels(const KernelRequest& request, const Convolution& convolution,
                    std::int64_t in_group, std::int64_t channels, std::int64_t divided) {
  const std::int64_t groups = convolution.groups;
  const bool has_wrong_bias =
      convolution.has_bias && request.inputs[2].elements() != request.outputs[0].shape[1];
  if (groups < 1 || in_group * groups != channels || divided % groups != 0 || has_wrong_bias)
    fail("node '{}': the weights of {} do not fit its channels in {} groups", request.node.name,
         qualified_op_type(request.node), groups);
}

}  // namespace

Convolution convolution_of(const KernelRequest& request) {
  Convolution convolution = without_slide(request);
  const TensorView& weights = request.inputs[1];
  check_channels(request, convolution, weights.shape[1], request.inputs[0].shape[1],
                 weights.shape[0]);
  convolution.slide = slide_of(request, places_of(weights));
  return convolution;
}

Convolution transposed_convolution_of(const KernelRequest& request) {
  Convolution convolution = without_slide(request);
  const TensorView& weights = request.inputs[1];
  check_channels(request, convolution, weights.shape[1], request.outputs[0].shape[1],
                 weights.shape[0]);
  convolution.slide = transposed_slide_of(request, places_of(weights));
  return convolution;
}

}  // namespace autopar::runtime
