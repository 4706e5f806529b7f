// Quantised operators of com.microsoft: what ONNX has in parts.

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"

namespace autopar::graph::microsoft {
namespace {

/// The name of a scale or zero point as ONNX's operators take it: a scalar for one number, which
/// may stand in a vector here.
std::string parameter(BodyBuilder& body, const std::string& name) {
  if (!body.has(name)) return "";
  const Shape& shape = body.shape(name);
  if (num_elements(shape) != 1 || shape.empty()) return name;
  body.write("{0}_scalar = Reshape ({0}, {1})", name, body.ints({}));
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
    body.write("{0}_each = Expand ({0}, {1})", one, body.ints(body.shape(like)));
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
  body.write("c = {} (a, b)", op);
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
    body.write("c_scaled = Mul (c, {}) sum = Add (product, c_scaled)", alpha);
    sum = "sum";
  }
  if (body.has("y_scale"))
    quantize(body, sum, "y_scale", "y_zero_point", "Y", body.type("A"));
  else
    body.write("Y = Identity ({})", sum);
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

}  // namespace autopar::graph::microsoft
