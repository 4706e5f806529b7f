#pragma once

#include "graph/onnx/function_body.h"

namespace autopar::graph {

class BodyBuilder;
using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

/// A value of a body. Without a name it stands for an operand that is left out.
struct Operand {
  BodyBuilder* body = nullptr;
  std::string name = {};

  explicit operator bool() const { return !name.empty(); }
};
using Operands = std::vector<Operand>;

/// What a node reads: a value, or integers that become a constant.
using Argument = std::variant<Operand, Ints>;
using Arguments = std::vector<Argument>;

Operand operator+(const Operand& a, const Argument& b);
Operand operator-(const Operand& a, const Argument& b);
Operand operator*(const Operand& a, const Argument& b);
Operand operator/(const Operand& a, const Argument& b);

/// Writes the body of a function for one call of it, whose shapes, attributes and constants are
/// known.
class BodyBuilder {
 public:
  /// `inputs` and `outputs` name all that the function may have.
  BodyBuilder(const NodeInContext& call, std::vector<std::string> inputs,
              std::vector<std::string> outputs);

  /// The input; left out where the call leaves it out.
  Operand operator[](std::string_view input);
  bool has(std::string_view input) const { return find(input) != nullptr; }
  /// Whether there is an i-th of the inputs "inputs_0" and so on, which a variadic one has.
  bool has_variadic(int i) const;
  const Shape& shape(std::string_view input) const { return value(input).shape; }
  DataType type(std::string_view input) const { return value(input).type; }
  /// The integers of a constant input; nullopt where it is left out or known in a run alone.
  std::optional<Ints> integers(std::string_view input) const;
  /// Whether the call reads the output.
  bool wants(std::string_view output) const;

  bool has_attribute(const std::string& name) const { return attributes_.contains(name); }
  std::int64_t int_attribute(const std::string& name, std::int64_t otherwise) const {
    return attribute(name, otherwise);
  }
  float float_attribute(const std::string& name, float otherwise) const {
    return attribute(name, otherwise);
  }
  std::string string_attribute(const std::string& name, const std::string& otherwise) const {
    return attribute(name, otherwise);
  }
  /// Empty where the call does not have them.
  Ints ints_attribute(const std::string& name) const { return attribute(name, Ints()); }
  std::vector<float> floats_attribute(const std::string& name) const {
    return attribute(name, std::vector<float>());
  }
  std::vector<std::string> strings_attribute(const std::string& name) const {
    return attribute(name, std::vector<std::string>());
  }
  /// Contiguous and aligned; nullopt where the call does not have it.
  std::optional<Tensor> tensor_attribute(const std::string& name) const;
  /// The numbers of a tensor of float32 or float64, or of the list that may stand in its place.
  std::vector<double> numbers_attribute(const std::string& tensor, const std::string& list) const;

  /// Throw Error for an input that is given, or an attribute that is not `usual`.
  void refuse_input(std::string_view input) const;
  void refuse_attribute(const std::string& name, std::int64_t usual) const;

  /// What a node of ONNX's own domain makes. Operands that are left out at the end are dropped.
  Operand op(const std::string& op_type, Arguments inputs, const Attributes& attributes = {});
  Operands ops(const std::string& op_type, Arguments inputs, std::size_t outputs,
               const Attributes& attributes = {});
  /// The last node becomes one of another domain, in its version 1: of autopar's own
  /// (own_operators.h), or one that has a body itself.
  void set_domain(const std::string& domain);
  /// The last node gets the call's attributes of these names, as far as it has them.
  void pass_attributes(std::initializer_list<std::string_view> names);

  Operand cast(const Operand& x, DataType type);
  Operand reshape(const Argument& x, const Shape& shape);
  Operand concat(const Operands& parts, std::int64_t axis);
  /// Equal parts, or parts of these sizes.
  Operands split(const Operand& x, std::size_t parts, std::int64_t axis);
  Operands split(const Operand& x, const Ints& sizes, std::int64_t axis);
  /// The elements from `begin` to `end` along the dimension.
  Operand slice(const Operand& x, std::int64_t begin, std::int64_t end, std::int64_t axis);
  /// Where `condition` holds `yes`, else `no`.
  Operand where(const Operand& condition, const Argument& yes, const Argument& no);

  /// Counts a constant that is to be made, before it takes memory. Throws LimitReached.
  void take_constant(std::int64_t elements, DataType type) const;
  /// 0, 1, ... up to the count, which may be an extent of the model.
  Ints counted(std::int64_t count) const;
  Operand constant(const Tensor& tensor);
  Operand integer(std::int64_t value);
  Operand floats(const std::vector<float>& values);
  /// The numbers in float32 or float64.
  Operand floats(DataType type, Shape shape, const std::vector<double>& values);
  /// A scalar of a floating type.
  Operand number(double value, DataType type = DataType::float32);
  /// A uint8 in every place.
  Operand bytes(std::uint8_t value, const Shape& shape = {});

  /// Makes the value an output of the function.
  void output(std::string_view name, const Operand& value);
  FunctionBody finish() { return std::move(body_); }

 private:
  template <typename T>
  T attribute(const std::string& name, T otherwise) const {
    const auto found = attributes_.find(name);
    return found == attributes_.end() ? std::move(otherwise) : std::get<T>(found->second);
  }
  const Value* find(std::string_view input) const;
  const Value& value(std::string_view input) const;
  std::size_t output_index(std::string_view name) const;
  onnx::NodeProto& last_node();

  const NodeInContext& call_;
  Attributes attributes_;  ///< the call's
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  FunctionBody body_;
};

/// Numbers of that shape, a byte each, of numbers of `bits` bits, of which each byte of `packed`
/// holds 8 / bits along the last dimension, the lowest bits first. What is left of the last byte is
/// dropped.
Operand unpack_numbers(BodyBuilder& body, const Operand& packed, const Shape& shape,
                       std::int64_t bits);

/// 0, 1, ... up to the rank.
Ints dims_up_to(std::int64_t rank);

}  // namespace autopar::graph
