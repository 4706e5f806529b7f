#include "graph/contrib/body_builder.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/node_conversion.h"

namespace autopar::graph {
Operand operator+(const Operand& a, const Argument& b) { return a.body->op("Add", {a, b}); }
Operand operator-(const Operand& a, const Argument& b) { return a.body->op("Sub", {a, b}); }
Operand operator*(const Operand& a, const Argument& b) { return a.body->op("Mul", {a, b}); }
Operand operator/(const Operand& a, const Argument& b) { return a.body->op("Div", {a, b}); }

BodyBuilder::BodyBuilder(const NodeInContext& call, std::vector<std::string> inputs,
                         std::vector<std::string> outputs)
    : call_(call),
      attributes_(convert_attributes(call.node, call.tensor, "")),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {
  body_.function.mutable_input()->Add(inputs_.begin(), inputs_.end());
  body_.function.mutable_output()->Add(outputs_.begin(), outputs_.end());
  body_.opsets = {{"", body_opset}};
}

const Value* BodyBuilder::find(std::string_view input) const {
  const auto at = static_cast<std::size_t>(std::ranges::find(inputs_, input) - inputs_.begin());
  require(at < inputs_.size(), "a body asks for an input of its function");
  return at < call_.inputs.size() ? call_.inputs[at] : nullptr;
}

const Value& BodyBuilder::value(std::string_view input) const {
  const Value* found = find(input);
  if (found == nullptr) fail("its input '{}' is left out", input);
  return *found;
}

Operand BodyBuilder::operator[](std::string_view input) {
  return {this, has(input) ? std::string(input) : ""};
}

bool BodyBuilder::has_variadic(int i) const {
  return std::ranges::find(inputs_, fmt::format("inputs_{}", i)) != inputs_.end();
}

std::optional<Ints> BodyBuilder::integers(std::string_view input) const {
  const Value* found = find(input);
  if (found == nullptr || !found->constant || !found->constant->has_data()) return std::nullopt;
  return found->constant->to_int64s();
}

std::size_t BodyBuilder::output_index(std::string_view name) const {
  const auto at = static_cast<std::size_t>(std::ranges::find(outputs_, name) - outputs_.begin());
  require(at < outputs_.size(), "a body asks for an output of its function");
  return at;
}

bool BodyBuilder::wants(std::string_view output) const {
  const auto at = static_cast<int>(output_index(output));
  return at < call_.node.output_size() && !call_.node.output(at).empty();
}

std::optional<Tensor> BodyBuilder::tensor_attribute(const std::string& name) const {
  if (!has_attribute(name)) return std::nullopt;
  Tensor tensor = attribute(name, Tensor());
  if (!tensor.has_data()) fail("the data of its attribute '{}' is absent", name);
  return tensor.is_contiguous() && tensor.is_aligned() ? tensor : tensor.contiguous_copy();
}

std::vector<double> BodyBuilder::numbers_attribute(const std::string& tensor,
                                                   const std::string& list) const {
  const auto held = tensor_attribute(tensor);
  if (held && held->type() == DataType::float64) {
    const auto values = held->values<double>();
    return {values.begin(), values.end()};
  }
  if (held && held->type() != DataType::float32)
    fail("its attribute '{}' is of {}, which is not supported", tensor, name_of(held->type()));
  const std::vector<float> floats = held ? std::vector<float>() : floats_attribute(list);
  const std::span<const float> values = held ? held->values<float>() : std::span(floats);
  return {values.begin(), values.end()};
}

Operands BodyBuilder::ops(const std::string& op_type, Arguments inputs, std::size_t outputs,
                          const Attributes& attributes) {
  for (Argument& input : inputs)
    if (const Ints* ints = std::get_if<Ints>(&input))
      input = constant(Tensor::of_int64({std::ssize(*ints)}, *ints));
  while (!inputs.empty() && !std::get<Operand>(inputs.back())) inputs.pop_back();
  call_.check_outputs(static_cast<std::int64_t>(outputs));
  Operands made;
  // No operator's type: nodes without a name get one that begins with theirs.
  const std::string name = fmt::format("value_{}", body_.function.node_size());
  auto& node = *body_.function.add_node();
  node.set_op_type(op_type);
  for (const Argument& input : inputs) node.add_input(std::get<Operand>(input).name);
  for (std::size_t o = 0; o < outputs; ++o) {
    made.push_back({this, outputs == 1 ? name : fmt::format("{}_{}", name, o)});
    node.add_output(made.back().name);
  }
  for (const auto& [attribute, value] : attributes) add_attribute(node, attribute, value);
  return made;
}

Operand BodyBuilder::op(const std::string& op_type, Arguments inputs,
                        const Attributes& attributes) {
  return ops(op_type, std::move(inputs), 1, attributes)[0];
}

onnx::NodeProto& BodyBuilder::last_node() {
  return *body_.function.mutable_node(body_.function.node_size() - 1);
}

void BodyBuilder::set_domain(const std::string& domain) {
  last_node().set_domain(domain);
  body_.opsets[domain] = 1;
}

void BodyBuilder::pass_attributes(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto* found = find_attribute(call_.node, name)) *last_node().add_attribute() = *found;
}

Operand BodyBuilder::cast(const Operand& x, DataType type) {
  return op("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}});
}

Operand BodyBuilder::reshape(const Argument& x, const Shape& shape) {
  const bool has_empty = std::ranges::find(shape, 0) != shape.end();
  return op("Reshape", {x, shape}, has_empty ? Attributes{{"allowzero", 1}} : Attributes{});
}

Operand BodyBuilder::concat(const Operands& parts, std::int64_t axis) {
  return op("Concat", {parts.begin(), parts.end()}, {{"axis", axis}});
}

Operands BodyBuilder::split(const Operand& x, std::size_t parts, std::int64_t axis) {
  return ops("Split", {x}, parts,
             {{"axis", axis}, {"num_outputs", static_cast<std::int64_t>(parts)}});
}
Operands BodyBuilder::split(const Operand& x, const Ints& sizes, std::int64_t axis) {
  return ops("Split", {x, sizes}, sizes.size(), {{"axis", axis}});
}

Operand BodyBuilder::slice(const Operand& x, std::int64_t begin, std::int64_t end,
                           std::int64_t axis) {
  return op("Slice", {x, Ints{begin}, Ints{end}, Ints{axis}});
}

Operand BodyBuilder::where(const Operand& condition, const Argument& yes, const Argument& no) {
  return op("Where", {condition, yes, no});
}

void BodyBuilder::take_constant(std::int64_t elements, DataType type) const {
  const std::int64_t bits = checked_multiply(elements, bits_of(type), "the bits of a constant");
  call_.take_constant(bits / 8);
}
Ints BodyBuilder::counted(std::int64_t count) const {
  take_constant(count, DataType::int64);
  return dims_up_to(count);
}
Operand BodyBuilder::constant(const Tensor& tensor) {
  return op("Constant", {}, {{"value", tensor}});
}
Operand BodyBuilder::integer(std::int64_t value) {
  return constant(Tensor::of_int64({}, std::span(&value, 1)));
}
Operand BodyBuilder::floats(const std::vector<float>& values) {
  return constant(Tensor::of_float({std::ssize(values)}, values));
}
Operand BodyBuilder::floats(DataType type, Shape shape, const std::vector<double>& values) {
  if (type == DataType::float64)
    return constant(Tensor::of<double>(type, std::move(shape), values));
  const std::vector<float> narrow(values.begin(), values.end());
  return constant(Tensor::of_float(std::move(shape), narrow));
}
Operand BodyBuilder::number(double value, DataType type) {
  const Operand scalar = floats(type, {}, {value});
  return type == DataType::float32 || type == DataType::float64 ? scalar : cast(scalar, type);
}
Operand BodyBuilder::bytes(std::uint8_t value, const Shape& shape) {
  take_constant(num_elements(shape), DataType::uint8);
  const std::vector<std::uint8_t> values(static_cast<std::size_t>(num_elements(shape)), value);
  return constant(Tensor::of<std::uint8_t>(DataType::uint8, shape, values));
}

void BodyBuilder::refuse_input(std::string_view input) const {
  if (has(input)) fail("its input '{}' is not supported", input);
}
void BodyBuilder::refuse_attribute(const std::string& name, std::int64_t usual) const {
  const std::int64_t given = int_attribute(name, usual);
  if (given != usual) fail("its attribute '{}' is {}, which is not supported", name, given);
}

void BodyBuilder::output(std::string_view name, const Operand& value) {
  body_.function.set_output(static_cast<int>(output_index(name)), value.name);
}

Operand unpack_numbers(BodyBuilder& body, const Operand& packed, const Shape& shape,
                       std::int64_t bits) {
  if (bits == 8) return packed;
  const Operand mask = body.bytes(static_cast<std::uint8_t>((1 << bits) - 1));
  Operands parts;
  for (std::int64_t i = 0; i < 8 / bits; ++i) {
    const Operand shifted =
        body.op("BitShift", {packed, body.bytes(static_cast<std::uint8_t>(i * bits))},
                {{"direction", "RIGHT"}});
    parts.push_back(body.op("Unsqueeze", {body.op("BitwiseAnd", {shifted, mask}), Ints{-1}}));
  }
  Shape whole = shape;
  const std::int64_t a_byte = 8 / bits;
  whole.back() = (shape.back() + a_byte - 1) / a_byte * a_byte;
  return body.slice(body.reshape(body.concat(parts, -1), whole), 0, shape.back(), -1);
}

Ints dims_up_to(std::int64_t rank) {
  Ints numbers(static_cast<std::size_t>(rank));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace autopar::graph
