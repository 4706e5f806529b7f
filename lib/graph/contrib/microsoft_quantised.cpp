// Quantised operators of com.microsoft: what ONNX has in parts, and lookups in quantised tables.

#include "graph/contrib/families.h"
#include "graph/contrib/microsoft_heads.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

using microsoft::quantisation_parameter;

bool is_per_axis(const BodyBuilder& body, const std::string& parameter) {
  return body.has(parameter) && num_elements(body.shape(parameter)) != 1;
}

/// Names of inputs that say how a tensor is quantised.
struct Scaling {
  std::string scale;
  std::string zero_point;
};

/// Those of an input that are named after it.
Scaling scaling_of(const std::string& input) { return {input + "_scale", input + "_zero_point"}; }

/// The numbers that `x` stands for. A scale or a zero point of several is one of each place along
/// `axis`, beside which the other may be one for all.
Operand dequantized(BodyBuilder& body, const Operand& x, const Scaling& by,
                    std::int64_t axis = -1) {
  Operand scales = quantisation_parameter(body, by.scale);
  Operand zeros = quantisation_parameter(body, by.zero_point);
  const bool has_scales = is_per_axis(body, by.scale);
  const bool has_zeros = is_per_axis(body, by.zero_point);
  if (has_scales && zeros && !has_zeros) zeros = body.op("Expand", {zeros, body.shape(by.scale)});
  if (has_zeros && !has_scales) scales = body.op("Expand", {scales, body.shape(by.zero_point)});
  return body.op("DequantizeLinear", {x, scales, zeros},
                 has_scales || has_zeros ? Attributes{{"axis", axis}} : Attributes{});
}

Operand dequantized(BodyBuilder& body, const std::string& input) {
  return dequantized(body, body[input], scaling_of(input));
}

Operand quantized(BodyBuilder& body, const Operand& x, const Scaling& by, DataType type) {
  const Operand zero = quantisation_parameter(body, by.zero_point);
  const Attributes attributes{{"output_dtype", static_cast<std::int64_t>(type)}};
  return body.op("QuantizeLinear", {x, quantisation_parameter(body, by.scale), zero},
                 zero ? Attributes{} : attributes);
}

void pass_axis(BodyBuilder& body, const std::string& scale) {
  if (is_per_axis(body, scale)) body.pass_attributes({"axis"});
}

void quantize_linear(BodyBuilder& body) {
  body.output("y", quantized(body, body["x"], scaling_of("y"), DataType::uint8));
  pass_axis(body, "y_scale");
}

void dequantize_linear(BodyBuilder& body) {
  body.output("y", body.op("DequantizeLinear", {body["x"], quantisation_parameter(body, "x_scale"),
                                                quantisation_parameter(body, "x_zero_point")}));
  pass_axis(body, "x_scale");
}

/// C of A and B, with an operator of floats between.
void of_two(BodyBuilder& body, const char* op_type) {
  const Operand c = body.op(op_type, {dequantized(body, "A"), dequantized(body, "B")});
  body.output("C", quantized(body, c, scaling_of("C"), body.type("A")));
}

/// Y of X, with an operator of floats between.
void of_one(BodyBuilder& body, const char* op_type,
            std::initializer_list<std::string_view> attributes) {
  const Operand y = body.op(op_type, {dequantized(body, "X")});
  body.pass_attributes(attributes);
  body.output("Y", quantized(body, y, scaling_of("Y"), body.type("X")));
}

void qlinear_add(BodyBuilder& body) { of_two(body, "Add"); }
void qlinear_mul(BodyBuilder& body) { of_two(body, "Mul"); }
void qlinear_sigmoid(BodyBuilder& body) { of_one(body, "Sigmoid", {}); }
void qlinear_leaky_relu(BodyBuilder& body) { of_one(body, "LeakyRelu", {"alpha"}); }

void qlinear_softmax(BodyBuilder& body) {
  if (body.int_attribute("opset", 13) < 13) fail("its attribute 'opset' is below 13");
  of_one(body, "Softmax", {"axis"});
}

void qlinear_global_average_pool(BodyBuilder& body) {
  body.refuse_attribute("channels_last", 0);
  of_one(body, "GlobalAveragePool", {});
}

void qlinear_average_pool(BodyBuilder& body) {
  body.refuse_attribute("channels_last", 0);
  of_one(body, "AveragePool",
         {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
}

/// Inputs beside the result's scale and zero point are threes: a tensor, its scale, its zero point.
void qlinear_concat(BodyBuilder& body) {
  const auto name = [](int i) { return fmt::format("inputs_{}", i); };
  Arguments parts;
  for (int i = 0; body.has_variadic(i); i += 3) {
    if (!body.has_variadic(i + 1) || !body.has_variadic(i + 2))
      fail("its inputs are not in threes: a tensor, its scale and its zero point");
    parts.emplace_back(dequantized(body, body[name(i)], {name(i + 1), name(i + 2)}));
  }
  if (parts.empty()) fail("it joins nothing");
  const Operand y = body.op("Concat", parts);
  body.pass_attributes({"axis"});
  body.output("Y", quantized(body, y, scaling_of("Y"), body.type(name(0))));
}

void qgemm(BodyBuilder& body) {
  const bool is_transposed = body.int_attribute("transB", 0) != 0;
  const Operand a = dequantized(body, body["A"], scaling_of("a"));
  const Operand b = dequantized(body, body["B"], scaling_of("b"), is_transposed ? 0 : 1);
  Operand sum = body.op("Gemm", {a, b});
  body.pass_attributes({"alpha", "transA", "transB"});
  if (body.has("C")) {  // in units of both scales
    const Operand c = body.cast(body["C"], DataType::float32) * (body["a_scale"] * body["b_scale"]);
    sum = sum + c * body.number(body.float_attribute("alpha", 1));
  }
  body.output("Y",
              body.has("y_scale") ? quantized(body, sum, scaling_of("y"), body.type("A")) : sum);
}

void matmul_integer_to_float(BodyBuilder& body) {
  const Operand a = dequantized(body, body["A"], scaling_of("a"));
  const Operand b = dequantized(body, body["B"], scaling_of("b"));
  const Operand product = body.op("MatMul", {a, b});
  body.output("Y", body.has("bias") ? product + body["bias"] : product);
}

void dynamic_quantize_matmul(BodyBuilder& body) {
  const Operands a = body.ops("DynamicQuantizeLinear", {body["A"]}, 3);
  const Operand integers = body.op(
      "MatMulInteger", {a[0], body["B"], a[2], quantisation_parameter(body, "b_zero_point")});
  const Operand product = body.cast(integers, DataType::float32) * (a[1] * body["b_scale"]);
  body.output("Y", body.has("bias") ? product + body["bias"] : product);
}

/// What a call says of its table, its axes counted from the front.
struct BlockTable {
  Shape data;  ///< numbers, not bytes
  std::size_t gathered = 0;
  std::size_t quantized = 1;
  std::int64_t block = 128;
  std::int64_t bits = 4;
  Shape indices;

  std::int64_t blocks() const { return (data[quantized] + block - 1) / block; }
  /// The shape of what the lookup makes of a tensor like the table.
  Shape looked_up(Shape shape) const {
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(gathered);
    const auto after = shape.erase(at);
    shape.insert(after, indices.begin(), indices.end());
    return shape;
  }
};

BlockTable block_table(const BodyBuilder& body) {
  BlockTable of;
  of.data = body.shape("data");
  of.indices = body.shape("indices");
  of.block = body.int_attribute("block_size", 128);
  of.bits = body.int_attribute("bits", 4);
  const auto rank = static_cast<std::int64_t>(of.data.size());
  const auto axis = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t given = body.int_attribute(name, otherwise);
    if (given < -rank || given >= rank)
      fail("its attribute '{}' is {} for a table {}", name, given, to_string(of.data));
    return static_cast<std::size_t>(given < 0 ? given + rank : given);
  };
  of.gathered = axis("gather_axis", 0);
  of.quantized = axis("quantize_axis", 1);
  if (of.block <= 0 || of.block > largest_block) fail("its attribute 'block_size' is {}", of.block);
  return of;
}

/// The rows that the indices name.
Operand looked_up(BodyBuilder& body, const BlockTable& of, const Operand& table) {
  return body.op("Gather", {table, body["indices"]},
                 {{"axis", static_cast<std::int64_t>(of.gathered)}});
}

/// A table of 4 bits: ONNX looks nothing up in one, so all of it becomes numbers.
Operand gathered_typed(BodyBuilder& body, const BlockTable& of) {
  const DataType type = body.type("data");
  if (type != DataType::int4 && type != DataType::uint4)
    fail("a table of {} is not supported", name_of(type));
  return looked_up(
      body, of,
      body.op("DequantizeLinear", {body["data"], body["scales"], body["zero_points"]},
              {{"axis", static_cast<std::int64_t>(of.quantized)}, {"block_size", of.block}}));
}

/// Repeats `x`, one number a block, for each number of its block, to a tensor of shape `row`.
Operand repeated_in_blocks(BodyBuilder& body, const BlockTable& of, const Operand& x,
                           const Shape& row) {
  Shape column = row;
  column.back() = of.blocks();
  column.push_back(1);
  Shape wide = column;
  wide.back() = of.block;
  Shape flat = row;
  flat.back() = of.blocks() * of.block;
  const Operand each = body.op("Expand", {body.reshape(x, column), wide});
  return body.slice(body.reshape(each, flat), 0, row.back(), -1);
}

/// Bytes of some numbers each, along the last dimension; so are zero points. Numbers are meant to
/// be 2^(bits - 1) too large where there are none.
Operand gathered_bytes(BodyBuilder& body, BlockTable of) {
  const std::size_t last = of.data.size() - 1;
  if (of.bits != 2 && of.bits != 4 && of.bits != 8) fail("{} bits are not supported", of.bits);
  if (of.gathered == last || of.quantized != last)
    fail("bytes looked up along dimension {} in blocks along dimension {} are not supported",
         of.gathered, of.quantized);
  of.data[last] *= 8 / of.bits;
  const Shape row = of.looked_up(of.data);
  if (body.shape("scales").back() != of.blocks())
    fail("table {} and scales {} do not fit blocks of {}", to_string(of.data),
         to_string(body.shape("scales")), of.block);
  const DataType type = body.type("scales");
  const Operand rows = looked_up(body, of, body["data"]);
  const Operand bytes = unpack_numbers(body, rows, row, of.bits);
  const Operand scales = looked_up(body, of, body["scales"]);
  const Operand numbers = body.cast(bytes, type);
  Operand zero = body.number(static_cast<double>(std::int64_t{1} << (of.bits - 1)), type);
  if (body.has("zero_points")) {
    Shape packed = row;
    packed.back() = of.blocks();
    const Operand zeros =
        unpack_numbers(body, looked_up(body, of, body["zero_points"]), packed, of.bits);
    zero = repeated_in_blocks(body, of, body.cast(zeros, type), row);
  }
  const Operand scale = repeated_in_blocks(body, of, scales, row);
  return (numbers - zero) * scale;
}

/// GatherBlockQuantized: rows of bytes are looked up packed, and only those that were are unpacked.
void gather_block_quantized(BodyBuilder& body) {
  const BlockTable of = block_table(body);
  if (body.shape("scales").size() != of.data.size())
    fail("table {} and scales {} have not as many dimensions", to_string(of.data),
         to_string(body.shape("scales")));
  body.output("output", body.type("data") == DataType::uint8 ? gathered_bytes(body, of)
                                                             : gathered_typed(body, of));
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "QuantizeLinear", "x y_scale y_zero_point?", "y", "axis:i", quantize_linear},
    {microsoft_domain, "DequantizeLinear", "x x_scale x_zero_point?", "y", "axis:i",
     dequantize_linear},
    {microsoft_domain, "QLinearAdd",
     "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C", "", qlinear_add},
    {microsoft_domain, "QLinearMul",
     "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C", "", qlinear_mul},
    {microsoft_domain, "QLinearSigmoid", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y", "",
     qlinear_sigmoid},
    {microsoft_domain, "QLinearLeakyRelu", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y",
     "alpha:f", qlinear_leaky_relu},
    {microsoft_domain, "QLinearSoftmax", "X X_scale X_zero_point? Y_scale Y_zero_point", "Y",
     "axis:i opset:i", qlinear_softmax},
    {microsoft_domain, "QLinearGlobalAveragePool", "X X_scale X_zero_point Y_scale Y_zero_point",
     "Y", "channels_last:i", qlinear_global_average_pool},
    {microsoft_domain, "QLinearAveragePool", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y",
     "auto_pad:s ceil_mode:i channels_last:i count_include_pad:i kernel_shape:is pads:is "
     "strides:is",
     qlinear_average_pool},
    {microsoft_domain, "QLinearConcat", "Y_scale Y_zero_point inputs*", "Y", "axis:i",
     qlinear_concat},
    {microsoft_domain, "QGemm",
     "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?", "Y",
     "alpha:f transA:i transB:i", qgemm},
    {microsoft_domain, "MatMulIntegerToFloat",
     "A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y", "", matmul_integer_to_float},
    {microsoft_domain, "DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?", "Y", "",
     dynamic_quantize_matmul},
    {microsoft_domain, "GatherBlockQuantized", "data indices scales zero_points?", "output",
     "bits:i block_size:i gather_axis:i quantize_axis:i", gather_block_quantized},
};

}  // namespace

std::span<const ContribOperator> quantised_operators() { return operators; }

}  // namespace autopar::graph
