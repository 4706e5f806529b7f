// Tensors that are known when the kernel is made.

#include <algorithm>

#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/generator/kernels.h"

namespace autopar::runtime {
namespace {

std::unique_ptr<Kernel> make_fixed_integers(const KernelRequest& request,
                                            std::span<const std::int64_t> values) {
  return make_fixed(request, graph::Tensor::of_int64(request.outputs.at(0).shape, values));
}

}  // namespace

std::unique_ptr<Kernel> make_constant(const KernelRequest& request) {
  const Shape& shape = request.outputs.at(0).shape;
  for (const auto& [key, attribute] : request.node.attributes) {
    if (const auto* tensor = std::get_if<graph::Tensor>(&attribute))
      return make_fixed(request, tensor->contiguous_copy());
    if (const auto* number = std::get_if<std::int64_t>(&attribute))
      return make_fixed_integers(request, {number, 1});
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute))
      return make_fixed_integers(request, *numbers);
    if (const auto* real = std::get_if<float>(&attribute))
      return make_fixed(request, graph::Tensor::of_float(shape, {real, 1}));
    if (const auto* reals = std::get_if<std::vector<float>>(&attribute))
      return make_fixed(request, graph::Tensor::of_float(shape, *reals));
  }
  fail("node '{}': this form of Constant has no {} kernel", request.node.name,
       request.device.kernels().device);
}

std::unique_ptr<Kernel> make_constant_of_shape(const KernelRequest& request) {
  const int bytes = element_bytes_of(request, request.outputs.at(0));
  const auto found = request.node.attributes.find("value");
  const auto* value =
      found == request.node.attributes.end() ? nullptr : std::get_if<graph::Tensor>(&found->second);
  const graph::Tensor element =
      value != nullptr ? value->contiguous_copy() : graph::Tensor::zeros(DataType::float32, {1});
  if (element.size_bytes() != bytes)
    fail("node '{}': the value of ConstantOfShape must be one element of its output's type",
         request.node.name);
  Composite composite(request);
  composite.add_copy(composite.constant(element), composite.output(0),
                     {{request.outputs[0].elements()}, {0}, {1}});
  return composite.finish();
}

std::unique_ptr<Kernel> make_shape(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = clamped(request.node.int_attribute("start", 0));
  const std::int64_t end = std::max(start, clamped(request.node.int_attribute("end", rank)));
  return make_fixed_integers(request,
                             std::span(shape).subspan(static_cast<std::size_t>(start),
                                                      static_cast<std::size_t>(end - start)));
}

std::unique_ptr<Kernel> make_size(const KernelRequest& request) {
  const std::int64_t elements = request.inputs.at(0).elements();
  return make_fixed_integers(request, {&elements, 1});
}

}  // namespace autopar::runtime
