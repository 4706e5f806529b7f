// Quantised operators of com.microsoft: what ONNX has in parts.

#include "graph/error.h"
#include "graph/microsoft_bodies.h"

namespace autopar::graph::microsoft {
namespace {

/// The name of a scale or zero point as ONNX's operators take it: a scalar for one number, which
/// may stand in a vector here.
std::string parameter(BodyBuilder& body, const std::string& name) {
  if (!body.has(name)) return "";
  const Shape& shape = body.shape(name);
  if (num_elements(shape) != 1 || shape.empty()) return name;
  body.add(fmt::format("{0}_scalar = Reshape ({0}, {1})", name, body.ints({})));
  return name + "_scalar";
}

bool is_per_axis(const BodyBuilder& body, const std::string& scale) {
  return num_elements(body.shape(scale)) != 1;
}

/// `to`, the numbers that `x` stands for. A scale or a zero point of several is one of each place
/// along `axis`, beside which the other may be one for all.
void dequantize(BodyBuilder& body, const std::string& x, const std::string& scale,
                const std::string& zero_point, const std::string& to, std::int64_t axis = -1) {
  std::string scales = parameter(body, scale);
  std::string zeros = parameter(body, zero_point);
  const bool has_scales = is_per_axis(body, scale);
  const bool has_zeros = !zeros.empty() && is_per_axis(body, zero_point);
  const auto repeat = [&](std::string& one, const std::string& like) {
    body.add(fmt::format("{0}_each = Expand ({0}, {1})", one, body.ints(body.shape(like))));
    one += "_each";
  };
  if (has_scales && !zeros.empty() && !has_zeros) repeat(zeros, scale);
  if (has_zeros && !has_scales) repeat(scales, zero_point);
  body.add("DequantizeLinear", {x, scales, zeros}, {to});
  if (has_scales || has_zeros) body.set("axis", axis);
}

void quantize(BodyBuilder& body, const std::string& x, const std::string& scale,
              const std::string& zero_point, const std::string& to, DataType type) {
  const std::string zero = parameter(body, zero_point);
  body.add("QuantizeLinear", {x, parameter(body, scale), zero}, {to});
  if (zero.empty()) body.set("output_dtype", static_cast<std::int64_t>(type));
}

void between(BodyBuilder& body, const std::string& op) {
  dequantize(body, "A", "A_scale", "A_zero_point", "a");
  dequantize(body, "B", "B_scale", "B_zero_point", "b");
  body.add(fmt::format("c = {} (a, b)", op));
  quantize(body, "c", "C_scale", "C_zero_point", "C", body.type("A"));
}

/// Y of X, with an operator of floats, whose text form has {} for its operand, between.
void around(BodyBuilder& body, const std::string& node,
            std::initializer_list<std::string_view> attributes) {
  dequantize(body, "X", "X_scale", "X_zero_point", "x");
  body.add("y = " + node);
  body.pass_attributes(attributes);
  quantize(body, "y", "Y_scale", "Y_zero_point", "Y", body.type("X"));
}

void with_axis(BodyBuilder& body, const std::string& scale) {
  if (is_per_axis(body, scale)) body.pass_attributes({"axis"});
}

}  // namespace

void quantize_linear(BodyBuilder& body) {
  quantize(body, "x", "y_scale", "y_zero_point", "y", DataType::uint8);
  with_axis(body, "y_scale");
}

void dequantize_linear(BodyBuilder& body) {
  body.add("DequantizeLinear", {"x", parameter(body, "x_scale"), parameter(body, "x_zero_point")},
           {"y"});
  with_axis(body, "x_scale");
}

void qlinear_add(BodyBuilder& body) { between(body, "Add"); }
void qlinear_mul(BodyBuilder& body) { between(body, "Mul"); }
void qlinear_sigmoid(BodyBuilder& body) { around(body, "Sigmoid (x)", {}); }
void qlinear_leaky_relu(BodyBuilder& body) { around(body, "LeakyRelu (x)", {"alpha"}); }

void qlinear_softmax(BodyBuilder& body) {
  if (body.int_attribute("opset", 13) < 13) fail("its attribute 'opset' is below 13");
  around(body, "Softmax (x)", {"axis"});
}

void qlinear_global_average_pool(BodyBuilder& body) {
  if (body.int_attribute("channels_last", 0) != 0)
    fail("its attribute 'channels_last' is not supported");
  around(body, "GlobalAveragePool (x)", {});
}

void qlinear_average_pool(BodyBuilder& body) {
  if (body.int_attribute("channels_last", 0) != 0)
    fail("its attribute 'channels_last' is not supported");
  around(body, "AveragePool (x)",
         {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
}

/// Inputs beside the result's scale and zero point are threes: a tensor, its scale, its zero point.
void qlinear_concat(BodyBuilder& body) {
  std::vector<std::string> parts;
  for (int i = 0; body.has_variadic(i); i += 3) {
    parts.push_back(fmt::format("part_{}", i));
    dequantize(body, fmt::format("inputs_{}", i), fmt::format("inputs_{}", i + 1),
               fmt::format("inputs_{}", i + 2), parts.back());
  }
  if (parts.empty()) fail("it joins nothing");
  body.add("Concat", parts, {"y"});
  body.pass_attributes({"axis"});
  quantize(body, "y", "Y_scale", "Y_zero_point", "Y", body.type("inputs_0"));
}

void qgemm(BodyBuilder& body) {
  dequantize(body, "A", "a_scale", "a_zero_point", "a");
  const bool is_transposed = body.int_attribute("transB", 0) != 0;
  dequantize(body, "B", "b_scale", "b_zero_point", "b", is_transposed ? 0 : 1);
  body.add("product = Gemm (a, b)");
  body.pass_attributes({"alpha", "transA", "transB"});
  std::string sum = "product";
  if (body.has("C")) {  // in units of both scales
    body.add("c_number = Cast <to = 1> (C) unit = Mul (a_scale, b_scale) c = Mul (c_number, unit)");
    const std::string alpha = body.number(body.float_attribute("alpha", 1), DataType::float32);
    body.add(fmt::format("c_scaled = Mul (c, {}) sum = Add (product, c_scaled)", alpha));
    sum = "sum";
  }
  if (body.has("y_scale"))
    quantize(body, sum, "y_scale", "y_zero_point", "Y", body.type("A"));
  else
    body.add(fmt::format("Y = Identity ({})", sum));
}

void matmul_integer_to_float(BodyBuilder& body) {
  dequantize(body, "A", "a_scale", "a_zero_point", "a");
  dequantize(body, "B", "b_scale", "b_zero_point", "b");
  body.add(body.has("bias") ? "product = MatMul (a, b) Y = Add (product, bias)"
                            : "Y = MatMul (a, b)");
}

void dynamic_quantize_matmul(BodyBuilder& body) {
  body.add("a, a_scale, a_zero_point = DynamicQuantizeLinear (A)");
  body.add("MatMulInteger", {"a", "B", "a_zero_point", parameter(body, "b_zero_point")},
           {"integers"});
  body.add(
      "numbers = Cast <to = 1> (integers) scale = Mul (a_scale, b_scale) "
      "product = Mul (numbers, scale)");
  body.add(body.has("bias") ? "Y = Add (product, bias)" : "Y = Identity (product)");
}

namespace {

/// `to`, of `count` numbers a row, from bytes that hold 8 / bits each, lowest bits first.
void unpack(BodyBuilder& body, const std::string& from, const std::string& to, Shape row,
            std::int64_t bits, std::int64_t count) {
  row.back() = count;
  if (bits == 8) {
    body.add(fmt::format("{} = Identity ({})", to, from));
    return;
  }
  const std::int64_t numbers = 8 / bits;
  std::vector<std::string> parts;
  const std::string last = body.ints({-1});
  const auto byte = [&](std::int64_t value) {
    const std::string name = body.integer(value);
    body.add(fmt::format("{0}_byte = Cast <to = 2> ({0})", name));
    return name + "_byte";
  };
  const std::string mask = byte((1 << bits) - 1);
  for (std::int64_t i = 0; i < numbers; ++i) {
    const std::string part = fmt::format("{}_{}", to, i);
    body.add(
        fmt::format("{0}_shifted = BitShift <direction = \"RIGHT\"> ({1}, {2}) "
                    "{0}_low = BitwiseAnd ({0}_shifted, {3}) {0} = Unsqueeze ({0}_low, {4})",
                    part, from, byte(i * bits), mask, last));
    parts.push_back(part);
  }
  body.add("Concat", parts, {to + "_side_by_side"});
  body.set("axis", std::int64_t{-1});
  Shape whole = row;
  whole.back() = -1;
  body.add(
      fmt::format("{0}_row = Reshape ({0}_side_by_side, {1}) {0} = Slice ({0}_row, {2}, {3}, "
                  "{4})",
                  to, body.ints(whole), body.ints({0}), body.ints({count}), last));
}

}  // namespace

/// Rows are looked up packed, and only those that were unpacked.
void gather_block_quantized(BodyBuilder& body) {
  const Shape& data = body.shape("data");
  const Shape& scales = body.shape("scales");
  const std::int64_t bits = body.int_attribute("bits", 4);
  const std::int64_t block = body.int_attribute("block_size", 128);
  const auto rank = static_cast<std::int64_t>(data.size());
  const std::int64_t axis = body.int_attribute("quantize_axis", 1);
  if (body.type("data") != DataType::uint8 || body.int_attribute("gather_axis", 0) != 0 ||
      (axis != rank - 1 && axis != -1) || (bits != 2 && bits != 4 && bits != 8) || rank < 2 ||
      scales.size() != data.size() || block <= 0 || data.back() * 8 / bits != scales.back() * block)
    fail("data {} of {} in blocks of {} and {} bits with scales {} is not supported",
         to_string(data), name_of(body.type("data")), block, bits, to_string(scales));
  const std::int64_t blocks = scales.back();
  Shape row = body.shape("indices");
  row.insert(row.end(), data.begin() + 1, data.end());
  body.add("rows = Gather (data, indices)");
  unpack(body, "rows", "numbers", row, bits, blocks * block);
  Shape in_blocks = row;
  in_blocks.back() = blocks;
  in_blocks.push_back(block);
  const int type = static_cast<int>(body.type("scales"));
  body.add(fmt::format("in_blocks = Reshape (numbers, {}) wide = Cast <to = {}> (in_blocks)",
                       body.ints(in_blocks), type));
  Shape a_block = in_blocks;
  a_block.back() = 1;
  if (body.has("zero_points")) {
    body.add("zero_rows = Gather (zero_points, indices)");
    unpack(body, "zero_rows", "zeros", row, bits, blocks);
    body.add(fmt::format("zero_column = Reshape (zeros, {}) zero = Cast <to = {}> (zero_column)",
                         body.ints(a_block), type));
  } else {
    const std::string zero =
        body.number(static_cast<float>(std::int64_t{1} << (bits - 1)), body.type("scales"));
    body.add(fmt::format("zero = Identity ({})", zero));
  }
  row.back() = blocks * block;
  body.add(
      fmt::format("scale_rows = Gather (scales, indices) scale = Reshape (scale_rows, {}) "
                  "centred = Sub (wide, zero) scaled = Mul (centred, scale) "
                  "output = Reshape (scaled, {})",
                  body.ints(a_block), body.ints(row)));
}

}  // namespace autopar::graph::microsoft
