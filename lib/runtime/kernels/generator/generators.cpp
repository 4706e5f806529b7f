// Tensors that are known when the kernel is made.

#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/generator/kernels.h"

namespace autopar::runtime {
namespace {

/// Copies a tensor known when the kernel is made to the output, or its one element to all of it.
class FixedKernel final : public Kernel {
 public:
  FixedKernel(Device& device, const graph::Tensor& tensor, std::int64_t elements,
              std::int64_t stride, int element_bytes)
      : memory_(device.allocate(tensor.size_bytes())),
        copy_(device.make_strided_copy({elements}, {stride}, {1}, element_bytes)) {
    device.write(memory_.get(), tensor.bytes());
  }
  void run(const KernelIo& io) override {
    copy_->run(memory_.get(), io.outputs[0].data, io.stream);
  }

 private:
  std::shared_ptr<std::byte> memory_;
  std::unique_ptr<StridedCopy> copy_;
};

std::unique_ptr<Kernel> make_fixed(const KernelRequest& request, const graph::Tensor& tensor) {
  require(tensor.size_bytes() == request.outputs.at(0).size_bytes(),
          "a fixed tensor fills its output");
  return std::make_unique<FixedKernel>(request.device, tensor, tensor.size_bytes(), 1, 1);
}

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
  return std::make_unique<FixedKernel>(request.device, element, request.outputs[0].elements(), 0,
                                       bytes);
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
