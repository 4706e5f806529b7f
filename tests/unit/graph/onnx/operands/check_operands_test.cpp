#include <fmt/format.h>

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

namespace {

std::string error_of(const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  try {
    load_onnx(folder / "model.onnx", {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// One node, its inputs and outputs as types.
struct Case {
  std::string inputs;
  std::string node;
  std::string told;  ///< within the error; empty where there is none
};

void check(const Case& each, const std::string& outputs = "float[A, B] y") {
  CAPTURE(each.inputs, each.node);
  const onnx::ModelProto model = parse_model(fmt::format(
      "<ir_version: 10, opset_import: [\"\" : 23, \"com.microsoft\" : 1]>\n"
      "tested ({}) => ({}) {{ {} }}",
      each.inputs, outputs, each.node.starts_with("y =") ? "[n] " + each.node : each.node));
  const std::string error = error_of(model);
  if (each.told.empty()) {
    CHECK(error.empty());
  } else {
    CHECK_THAT(error, Contains("node 'n'") && Contains(each.told));
  }
}

}  // namespace

TEST_CASE("inputs that kernels read by element have the counts that their operator takes") {
  const std::string lstm = "float[3, 2, 4] x, float[1, 20, 4] w, float[1, 20, 5] r, ";
  const std::string bytes = "uint8[2, 4] a, float s, uint8 z, uint8[4, 3] b, ";
  const Case cases[] = {
      {"float[4, 5] x, int64[0] k", "y = Trilu(x, k)", "its input 'k' is 0, but must be 'one'"},
      {"float[4, 5] x, int64[1] k", "y = Trilu(x, k)", ""},
      {"float[4] x, int64 k", "y = Trilu(x, k)", "its input 'input' is 4"},
      {lstm + "float[1, 39] b", "y = LSTM<hidden_size = 5>(x, w, r, b)",
       "its input 'B' is 1x39, but must be 'd 8*h' with b = 2, d = 1, h = 5, i = 4"},
      {lstm + "float[1, 40] b", "y = LSTM<hidden_size = 5>(x, w, r, b)", ""},
      {lstm + "int32[3] l", "y = LSTM<hidden_size = 5>(x, w, r, , l)", "'sequence_lens' is 3"},
      {lstm + "float[2, 1, 5] h", "y = LSTM<hidden_size = 5>(x, w, r, , , h)",
       "its input 'initial_h' is 2x1x5, but must be 'd b h'"},
      {bytes + "float[0] t, uint8 u", "y = QLinearMatMul(a, s, z, b, t, z, s, u)",
       "its input 'b_scale' is 0"},
      {bytes + "float[3] t, uint8[3] u", "y = QLinearMatMul(a, s, z, b, t, u, s, z)", ""},
      {"float[2, 3] a, float[3, 4] b, float[3] c", "y = Gemm(a, b, c)",
       "its input 'C' is 3, but must be '~ m n' with k = 3, m = 2, n = 4"},
      {"float[3, 2] a, float[4, 3] b, float[2, 1] c", "y = Gemm<transA = 1, transB = 1>(a, b, c)",
       ""},
      {"float[2, 6] x, float[5] s", "y = RMSNormalization(x, s)", "its input 'scale' is 5"},
      {"float[2, 6] x, float[6] s", "y = RMSNormalization(x, s)", ""},
      {"float[2, 6] x, int64[3] p", "y = Pad(x, p)", "its input 'pads' is 3, but must be '2*rank'"},
      {"uint8[2, 6] x, float[4] s", "y = DequantizeLinear(x, s)", "its input 'x_scale' is 4"},
      {"uint8[2, 6] x, float[6] s, uint8[6] z", "y = DequantizeLinear(x, s, z)", ""},
      {"uint8[2, 6] x, float[2, 3] s", "y = DequantizeLinear<axis = 1, block_size = 2>(x, s)", ""},
      {"uint8[2, 6] x, float[2, 4] s", "y = DequantizeLinear<axis = 1, block_size = 2>(x, s)",
       "its input 'x_scale' is 2x4"},
      {"float[2, 32] a, uint8[5, 2, 8] b, float[5, 3] s",
       "y = com.microsoft.MatMulNBits<K = 32, N = 5, bits = 4, block_size = 16>(a, b, s)",
       "its input 'scales' is 5x3"},
      {"float[2, 32] a, uint8[5, 2, 8] b, float[5, 2] s",
       "y = com.microsoft.MatMulNBits<K = 32, N = 5, bits = 4, block_size = 16>(a, b, s)", ""},
  };
  for (const Case& each : cases) {
    const bool is_lstm = each.node.find("LSTM") != std::string::npos;
    check(each, is_lstm ? "float[A, B, C, D] y" : "float[A, B] y");
  }
}

TEST_CASE("attention's operands fit together before a sharding rule or kernel sees them") {
  const std::string qkv = "float[2, 6, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 7] v";
  const std::string output = "float[A, B, C, D] y";
  check({qkv, "y = Attention(q, k, v)", ""}, output);
  check({qkv + ", float[2, 6, 4, 5] m", "y = Attention(q, k, v, m)", ""}, output);
  check({qkv + ", float[1, 2, 6, 4, 5] m", "y = Attention(q, k, v, m)",
         "its input 'attn_mask' is 1x2x6x4x5"},
        output);
  check({"float[2, 4, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 7] v", "y = Attention(q, k, v)",
         "its input 'Q' is 2x4x4x8, but must be 'b k*r s e'"},
        output);
}

TEST_CASE("an operator's needed inputs are given, and axes name dimensions") {
  onnx::ModelProto product =
      parse_graph(18, "(float[4, 4] x) => (float[8, 4] y) { [n] y = Concat<axis = 0>(x, x) }");
  product.mutable_graph()->mutable_node(0)->mutable_input(0)->clear();
  CHECK_THAT(error_of(product), Contains("node 'n' (Concat): its input 'inputs[0]' is left out"));
  check({"float[4, 5] x", "y = Softmax<axis = 2>(x)", "node 'n'"});
  check({"float[4, 5] x", "axis = Constant<value_int = 2>() [n] y = CumSum(x, axis)",
         "its input 'axis' has 2, but its data has 2 dimension(s)"});
}

TEST_CASE("tensors of more dimensions than rules have letters are refused") {
  std::string shape = "1";
  for (int d = 1; d < 3000; ++d) shape += ", 1";
  const std::string text = fmt::format("(float[{0}] x) => (float[{0}] y) {{ y = Relu(x) }}", shape);
  const std::string error = error_of(parse_graph(18, text));
  CHECK_THAT(error, Contains("3000 dimensions"));
  CHECK(error.size() < 300);
}

TEST_CASE("names that the graph's values are found by are there once") {
  onnx::ModelProto model = parse_graph(18, "(float[2] x) => (float[2] y) { y = Relu(x) }");
  *model.mutable_graph()->add_output() = model.graph().output(0);
  CHECK_THAT(error_of(model), Contains("the graph's output 'y' is listed twice"));
  model.mutable_graph()->mutable_output()->RemoveLast();
  model.mutable_graph()->add_input()->CopyFrom(model.graph().input(0));
  model.mutable_graph()->mutable_input(1)->clear_name();
  CHECK_THAT(error_of(model), Contains("an input of the graph has no name"));
}
