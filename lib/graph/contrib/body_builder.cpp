#include "graph/contrib/body_builder.h"

#include <fmt/ranges.h>
#include <onnx/defs/parser.h>

#include <algorithm>

#include "base/error.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {

BodyBuilder::BodyBuilder(const NodeInContext& call, std::vector<std::string> inputs,
                         const std::vector<std::string>& outputs)
    : call_(call), inputs_(std::move(inputs)) {
  for (const std::string& input : inputs_) body_.function.add_input(input);
  for (const std::string& output : outputs) body_.function.add_output(output);
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

bool BodyBuilder::has_variadic(int i) const {
  return std::ranges::find(inputs_, fmt::format("inputs_{}", i)) != inputs_.end();
}

std::optional<std::vector<std::int64_t>> BodyBuilder::integers(std::string_view input) const {
  const Value* found = find(input);
  if (found == nullptr || !found->constant || !found->constant->has_data()) return std::nullopt;
  return found->constant->to_int64s();
}

bool BodyBuilder::wants(std::string_view output) const {
  for (int o = 0; o < body_.function.output_size(); ++o)
    if (body_.function.output(o) == output)
      return o < call_.node.output_size() && !call_.node.output(o).empty();
  throw InternalError("internal error: a body asks for an output of its function");
}

const onnx::AttributeProto* BodyBuilder::attribute(std::string_view name) const {
  const auto& attributes = call_.node.attribute();
  const auto found = std::ranges::find(attributes, name, &onnx::AttributeProto::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::int64_t BodyBuilder::int_attribute(std::string_view name, std::int64_t otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->i();
}
float BodyBuilder::float_attribute(std::string_view name, float otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->f();
}
std::string BodyBuilder::string_attribute(std::string_view name,
                                          const std::string& otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->s();
}
std::vector<std::int64_t> BodyBuilder::ints_attribute(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}
std::vector<float> BodyBuilder::floats_attribute(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> BodyBuilder::strings_attribute(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

std::optional<Tensor> BodyBuilder::tensor_attribute(std::string_view name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  const Tensor tensor = call_.tensor(found->t());
  if (!tensor.has_data()) fail("the data of its attribute '{}' is absent", name);
  return tensor.is_contiguous() && tensor.is_aligned() ? tensor : tensor.contiguous_copy();
}

void BodyBuilder::add(const std::string& nodes) {
  onnx::OnnxParser parser(nodes.c_str());
  while (!parser.EndOfInput()) {
    const auto status = parser.Parse(*body_.function.add_node());
    require(status.IsOK(), "a body is written in ONNX's text form");
  }
}

void BodyBuilder::add(const std::string& op_type, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs) {
  auto& node = *body_.function.add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
}

void BodyBuilder::add_in(const std::string& domain, const std::string& op_type,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
  add(op_type, inputs, outputs);
  last_node().set_domain(domain);
  body_.opsets[domain] = 1;
}

onnx::NodeProto& BodyBuilder::last_node() {
  return *body_.function.mutable_node(body_.function.node_size() - 1);
}

void BodyBuilder::set(const std::string& name, std::int64_t value) {
  auto& attribute = *last_node().add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}
void BodyBuilder::set(const std::string& name, float value) {
  auto& attribute = *last_node().add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}
void BodyBuilder::set(const std::string& name, const std::string& value) {
  auto& attribute = *last_node().add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

void BodyBuilder::pass_attributes(std::initializer_list<std::string_view> names) {
  onnx::NodeProto& node = last_node();
  for (const std::string_view name : names)
    if (const auto* found = attribute(name)) *node.add_attribute() = *found;
}

std::string BodyBuilder::constant(const Tensor& tensor) {
  const std::string name = fmt::format("constant_{}", constants_++);
  auto& node = *body_.function.add_node();
  node.set_op_type("Constant");
  node.add_output(name);
  auto& attribute = *node.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  *attribute.mutable_t() = tensor_to_proto(name, tensor);
  return name;
}

std::string BodyBuilder::ints(const std::vector<std::int64_t>& values) {
  return constant(Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
}
std::string BodyBuilder::integer(std::int64_t value) {
  return constant(Tensor::of_int64({}, std::span(&value, 1)));
}
std::string BodyBuilder::floats(const std::vector<float>& values) {
  return constant(Tensor::of_float({static_cast<std::int64_t>(values.size())}, values));
}
std::string BodyBuilder::number(float value, DataType type) {
  const std::string name = constant(Tensor::of_float({}, std::span(&value, 1)));
  if (type == DataType::float32) return name;
  add(fmt::format("{0}_cast = Cast <to = {1}> ({0})", name, static_cast<int>(type)));
  return name + "_cast";
}

FunctionBody BodyBuilder::finish() { return std::move(body_); }

std::string list_text(const std::vector<std::int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace autopar::graph
