#include "runtime/kernels/convolution/convolution.h"

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

/// The groups of the weights make the channels of `images`.
Convolution make_convolution(const KernelRequest& request, const TensorView& images,
                             decltype(slide_of)* slide) {
  const TensorView& weights = request.inputs[1];
  if (request.inputs[0].shape.size() < 2 || weights.shape.size() < 2)
    fail("node '{}': {} wants images and weights of at least two dimensions", request.node.name,
         qualified_op_type(request.node));
  const std::int64_t groups = request.node.int_attribute("group", 1);
  const bool has_bias = is_given(request.inputs, 2);
  const bool has_wrong_bias =
      has_bias && request.inputs[2].elements() != request.outputs[0].shape[1];
  if (groups < 1 || weights.shape[1] * groups != images.shape[1] ||
      weights.shape[0] % groups != 0 || has_wrong_bias)
    fail("node '{}': the weights of {} do not fit its channels in {} groups", request.node.name,
         qualified_op_type(request.node), groups);
  return {slide(request, places_of(weights)), groups, has_bias};
}

}  // namespace

Convolution convolution_of(const KernelRequest& request) {
  return make_convolution(request, request.inputs[0], slide_of);
}
Convolution transposed_convolution_of(const KernelRequest& request) {
  return make_convolution(request, request.outputs[0], transposed_slide_of);
}

Shape grouped_weights(const Shape& stored, const Convolution& convolution) {
  Shape weights = stored;
  if (convolution.groups == 1) return weights;
  weights.front() /= convolution.groups;
  weights.insert(weights.begin(), convolution.groups);
  return weights;
}

ConvolutionSizes sizes_of(const KernelRequest& request, const Convolution& convolution,
                          const TensorView& seen, const TensorView& windows) {
  return {.windows = windows_of(request, places_of(seen), places_of(windows),
                                places_of(request.inputs[1]), convolution.slide),
          .images = request.inputs[0].shape[0],
          .channels = request.inputs[0].shape[1],
          .out_channels = request.outputs[0].shape[1],
          .groups = convolution.groups,
          .has_bias = convolution.has_bias};
}

ConvolutionSizes convolution_sizes(const KernelRequest& request) {
  require_type(request, request.inputs[0].type, AllFloats{});
  return sizes_of(request, convolution_of(request), request.inputs[0], request.outputs[0]);
}
ConvolutionSizes transposed_convolution_sizes(const KernelRequest& request) {
  require_type(request, request.inputs[0].type, AllFloats{});
  return sizes_of(request, transposed_convolution_of(request), request.outputs[0],
                  request.inputs[0]);
}

}  // namespace autopar::runtime
