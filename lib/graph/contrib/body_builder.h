#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/function_body.h"

namespace autopar::graph {

/// Writes the body of a function for one call of it, whose shapes, attributes and constants are
/// known. Values bear the names of the function's own inputs and outputs, or others.
class BodyBuilder {
 public:
  /// `inputs` and `outputs` name all that the function may have.
  BodyBuilder(const NodeInContext& call, std::vector<std::string> inputs,
              const std::vector<std::string>& outputs);

  bool has(std::string_view input) const { return find(input) != nullptr; }
  /// Whether there is an i-th of the inputs "inputs_0" and so on, which a variadic one has.
  bool has_variadic(int i) const;
  const Shape& shape(std::string_view input) const { return value(input).shape; }
  DataType type(std::string_view input) const { return value(input).type; }
  /// The integers of a constant input; nullopt where it is left out or known in a run alone.
  std::optional<std::vector<std::int64_t>> integers(std::string_view input) const;
  /// Whether the call reads the output.
  bool wants(std::string_view output) const;

  /// The version of the call's own operator set.
  std::int64_t opset() const { return call_.opsets.at(call_.node.domain()); }

  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  std::int64_t int_attribute(std::string_view name, std::int64_t otherwise) const;
  float float_attribute(std::string_view name, float otherwise) const;
  std::string string_attribute(std::string_view name, const std::string& otherwise) const;
  std::vector<std::int64_t> ints_attribute(std::string_view name) const;
  std::vector<float> floats_attribute(std::string_view name) const;
  std::vector<std::string> strings_attribute(std::string_view name) const;
  /// Contiguous and aligned; nullopt where the call does not have it.
  std::optional<Tensor> tensor_attribute(std::string_view name) const;

  /// Nodes in ONNX's text form, "y = Add (x, bias)".
  void add(const std::string& nodes);
  template <typename... Args>
  void write(fmt::format_string<Args...> nodes, Args&&... args) {
    add(fmt::format(nodes, std::forward<Args>(args)...));
  }
  /// One node; empty names are operands that are left out.
  void add(const std::string& op_type, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs);
  /// The same, of another domain's operator, in its version 1: one of autopar's own
  /// (own_operators.h), or one that has a body itself.
  void add_in(const std::string& domain, const std::string& op_type,
              const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  /// Attributes of the last node.
  void set(const std::string& name, std::int64_t value);
  void set(const std::string& name, float value);
  void set(const std::string& name, const std::string& value);
  /// The last node gets the call's attributes of these names, as far as it has them.
  void pass_attributes(std::initializer_list<std::string_view> names);
  /// The name of a constant.
  std::string constant(const Tensor& tensor);
  std::string ints(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);
  std::string floats(const std::vector<float>& values);
  /// A scalar of a floating type.
  std::string number(float value, DataType type);

  FunctionBody finish();

 private:
  const Value* find(std::string_view input) const;
  const Value& value(std::string_view input) const;
  const onnx::AttributeProto* attribute(std::string_view name) const;
  onnx::NodeProto& last_node();

  const NodeInContext& call_;
  std::vector<std::string> inputs_;
  FunctionBody body_;
  int constants_ = 0;
};

/// "[0, 2, 1, 3]", as the text form has it.
std::string list_text(const std::vector<std::int64_t>& values);

}  // namespace autopar::graph
