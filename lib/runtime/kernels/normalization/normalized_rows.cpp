#include "runtime/kernels/normalization/normalized_rows.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

using Part = Composite::Part;

Shape without_leading_ones(const Shape& shape) {
  return {std::ranges::find_if(shape, [](std::int64_t extent) { return extent != 1; }),
          shape.end()};
}

/// To the last dimensions of `wide`, which stays as it is.
bool broadcasts_to(const Shape& narrow, const Shape& wide) {
  if (narrow.size() > wide.size()) return false;
  return std::equal(
      narrow.rbegin(), narrow.rend(), wide.rbegin(),
      [](std::int64_t extent, std::int64_t to) { return extent == 1 || extent == to; });
}

Shape normalized_shape(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto axis = checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
  return {shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()};
}

Part converted(Composite& composite, const Part& part, DataType type) {
  if (part.type == type) return part;
  const Part result = composite.temporary(type, part.shape);
  composite.add("", "Cast", {{"to", static_cast<std::int64_t>(type)}}, {part}, {result});
  return result;
}

Part ones(Composite& composite, DataType type, const Shape& shape) {
  const Part one = composite.constant(
      type == DataType::float64 ? graph::Tensor::of<double>(type, {1}, std::vector<double>{1})
                                : graph::Tensor::of<float>(type, {1}, std::vector<float>{1}));
  const Part result = composite.temporary(type, shape);
  const std::int64_t elements = graph::num_elements(shape);
  composite.add_copy(one, result, {{elements}, {0}, {1}});
  return result;
}

}  // namespace

NormalizedRows::NormalizedRows(const KernelRequest& request)
    : epsilon(request.node.float_attribute("epsilon", 1e-5F)) {
  require_type(request, request.inputs.at(0).type, AllFloats{});
  const AxisExtents around = extents_around_axis(request, request.inputs[0].shape, -1);
  count = around.outer;
  extent = around.extent * around.inner;
  for (std::size_t i = 1; i < request.inputs.size(); ++i)
    if (request.inputs[i].present() && request.inputs[i].elements() != extent)
      fail("node '{}': {} wants a scale and bias that broadcast to its input", request.node.name,
           request.node.op_type);
}

bool has_broadcast_scale(const KernelRequest& request) {
  const Shape row = without_leading_ones(normalized_shape(request));
  bool is_broadcast = false;
  for (std::size_t i = 1; i < request.inputs.size(); ++i) {
    if (!request.inputs[i].present()) continue;
    const Shape& shape = request.inputs[i].shape;
    if (!broadcasts_to(shape, request.inputs[0].shape)) return false;  // a kernel's error to tell
    is_broadcast |= without_leading_ones(shape) != row;
  }
  return is_broadcast;
}

std::unique_ptr<Kernel> make_broadcast_normalization(const KernelRequest& request) {
  Composite composite(request);
  const DataType type = request.inputs[0].type;
  const DataType wide = type == DataType::float64 ? type : DataType::float32;
  const Part in = converted(composite, composite.input(0), wide);
  const auto temporary = [&] { return composite.temporary(wide, in.shape); };
  const Part normal = temporary();
  composite.add("", request.node.op_type, request.node.attributes,
                {in, ones(composite, wide, normalized_shape(request))},
                {normal, composite.output(1), composite.output(2)});
  const Part out = type == wide ? composite.output(0) : temporary();
  const bool is_biased = composite.has_input(2);
  const Part scaled = is_biased ? temporary() : out;
  composite.add("", "Mul", {}, {normal, converted(composite, composite.input(1), wide)}, {scaled});
  if (is_biased)
    composite.add("", "Add", {}, {scaled, converted(composite, composite.input(2), wide)}, {out});
  if (type != wide)
    composite.add("", "Cast", {{"to", static_cast<std::int64_t>(type)}}, {out},
                  {composite.output(0)});
  return composite.finish();
}

}  // namespace autopar::runtime
