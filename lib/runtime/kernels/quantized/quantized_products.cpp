#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/convolution/windows.h"
#include "runtime/kernels/quantized/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

/// The operator on (a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point,
/// bias?) by sums of one operator on bytes. `layout` is Requantize's.
std::unique_ptr<Kernel> make_quantized(const KernelRequest& request, const char* sums_op_type,
                                       std::map<std::string, graph::Attribute> attributes,
                                       std::map<std::string, graph::Attribute> layout) {
  Composite composite(request);
  const auto input = [&](std::size_t i) { return composite.input(i); };
  const auto sums = composite.temporary(DataType::int32, request.outputs.at(0).shape);
  composite.add("", sums_op_type, std::move(attributes), {input(0), input(3), input(2), input(5)},
                {sums});
  composite.add(passes::internal_domain, "Requantize", std::move(layout),
                {sums, input(1), input(4), input(6), input(7), input(8)}, {composite.output(0)});
  return composite.finish();
}

}  // namespace

std::unique_ptr<Kernel> make_qlinear_matmul(const KernelRequest& request) {
  const Shape& a = request.inputs.at(0).shape;
  const Shape& b = request.inputs.at(3).shape;
  const std::int64_t rows = a.size() > 1 ? a[a.size() - 2] : 1;
  const std::int64_t columns = b.size() > 1 ? b.back() : 1;
  return make_quantized(request, "MatMulInteger", {}, {{"rows", rows}, {"columns", columns}});
}

std::unique_ptr<Kernel> make_qlinear_conv(const KernelRequest& request) {
  return make_quantized(request, "ConvInteger", request.node.attributes,
                        {{"axis", std::int64_t{1}}});
}

namespace cuda {

bool serves_quantized_matmul(const graph::Node&, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs) {
  constexpr std::size_t most_dimensions = 8;
  if (outputs[0].elements() == 0) return true;
  return inputs[0].elements() > 0 && inputs[1].elements() > 0 &&
         outputs[0].shape.size() <= most_dimensions;
}

bool serves_quantized_conv(const graph::Node&, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  if (outputs[0].elements() == 0) return true;
  return inputs[0].elements() > 0 && inputs[1].elements() > 0 &&
         inputs[0].shape.size() <= 2 + Windows::dimensions;
}

}  // namespace cuda

}  // namespace autopar::runtime
