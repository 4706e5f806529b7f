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
      "<ir_version: 10, opset_import: [\"\" : 23, \"com.microsoft\" : 1, \"ai.onnx.ml\" : 3]>\n"
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

TEST_CASE("a Transpose names each dimension once") {
  const std::string told = "does not name each dimension of 4x5 once";
  check({"float[4, 5] x", "y = Transpose<perm = [1, 0]>(x)", ""});
  for (const char* perm : {"1", "1, 1", "0, 2", "-1, 0", "0, 1, 2"})
    check({"float[4, 5] x", fmt::format("y = Transpose<perm = [{}]>(x)", perm),
           fmt::format("its attribute 'perm' ({}) {}", perm, told)});
}

TEST_CASE("frames of an STFT have positive steps and lengths") {
  const auto stft = [](const char* step, const char* length) {
    return fmt::format(
        "step = Constant<value_int = {}>() length = Constant<value_int = {}>() "
        "[n] y = STFT(x, step, , length)",
        step, length);
  };
  const std::string output = "float[A, B, C, D] y";
  check({"float[1, 32, 1] x", stft("4", "8"), ""}, output);
  check({"float[1, 32, 1] x", stft("0", "8"), "its input 'frame_step' is 0, not positive"}, output);
  check({"float[1, 32, 1] x", stft("-1", "8"), "its input 'frame_step' is -1, not positive"},
        output);
  check({"float[1, 32, 1] x", stft("4", "-1"), "its input 'frame_length' is -1, not positive"},
        output);
}

TEST_CASE("lists that ask for more dimensions than a tensor may have are named") {
  const std::string count = "its input '{}' asks for 3000 dimensions";
  const std::string list = ", int64[3000] list";
  check({"float[1] x" + list, "y = Reshape(x, list)", fmt::format(fmt::runtime(count), "shape")});
  check({"float[1] x" + list, "y = Expand(x, list)", fmt::format(fmt::runtime(count), "shape")});
  check({"float[1] x" + list, "y = Unsqueeze(x, list)", fmt::format(fmt::runtime(count), "axes")});
  check({"float[1] x" + list, "y = Tile(x, list)", fmt::format(fmt::runtime(count), "repeats")});
  check(
      {"int64[3000] list", "y = ConstantOfShape(list)", fmt::format(fmt::runtime(count), "input")});
}

TEST_CASE("a MatMulNBits' attributes make sense, and its bytes are whole columns") {
  const auto product = [](const char* attributes, const char* operands) {
    return fmt::format("y = com.microsoft.MatMulNBits<K = 24, N = 5{}>({})", attributes, operands);
  };
  const std::string a = "float[2, 24] a, ";
  const std::string whole = a + "uint8[5, 2, 8] b, float[5, 2] s";
  const char* const four = ", bits = 4, block_size = 16";
  check({whole, product(four, "a, b, s"), ""});
  check({whole + ", uint8[5] z", product(four, "a, b, s, z"), ""});
  check({whole + ", float[5, 2] z", product(four, "a, b, s, z"), ""});
  check({whole + ", uint8[4] z", product(four, "a, b, s, z"), "its input 'zero_points' is 4"});
  check({whole + ", float[5] z", product(four, "a, b, s, z"),
         "its input 'zero_points' is 5, but its 5 columns have 2 each"});
  check({a + "uint8[5, 2, 7] b, float[5, 2] s", product(four, "a, b, s"),
         "its input 'B' is 5x2x7, but its 5 columns have 16 each"});
  check({whole, product(", bits = 7, block_size = 16", "a, b, s"),
         "its attributes make no sense: N 5, K 24, bits 7, block_size 16"});
  for (const char* block : {"0", "-16"})
    check({whole, product(fmt::format(", bits = 4, block_size = {}", block).c_str(), "a, b, s"),
           "(com.microsoft::MatMulNBits)"});
}

TEST_CASE("operators with bodies have operands that fit before their body is made") {
  const std::string image = "float[2, 4, 4, 6] x, ";
  check(
      {image + "float[5] g, float[6] b",
       "y = com.microsoft.GroupNorm<groups = 2, activation = 0>(x, g, b)", "its input 'beta' is 6"},
      "float[A, B, C, D] y");
  check({image + "float[6] g, float[5] b, float[2, 4, 4, 6] s",
         "y = com.microsoft.SkipGroupNorm<groups = 2>(x, g, b, s)", "its input 'beta' is 5"},
        "float[A, B, C, D] y");
  check({"float x", "y = ai.onnx.ml.Imputer<imputed_value_floats = [1.0]>(x)",
         "its input 'X' is scalar"});
  check({"float[2, 3, 8] x, int64[0] p, float[4, 2] c",
         "y = com.microsoft.RotaryEmbedding(x, p, c, c)", "its input 'position_ids' is 0"},
        "float[A, B, C] y");
  check({"uint8[4, 8] data, int64[2] ids, float s",
         "y = com.microsoft.GatherBlockQuantized<block_size = 16>(data, ids, s)",
         "its input 'scales' is scalar"});
  const std::string grouped = "float[2, 1, 16] q, float[2, 1, 8] k, float[2, 1, 8] v, ";
  const char* const call =
      "total = Constant<value = int32 {4}>() [n] y, keys, values = "
      "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>"
      "(q, k, v, past, past, lengths, total)";
  const std::string outputs = "float[A, B, C] y, float[D, E, F, G] keys, float[H, I, J, K] values";
  check({grouped + "float[2, 2, 4, 4] past, int32[2] lengths", call, ""}, outputs);
  check({grouped + "float[2, 2, 4, 4] past, int32[3] lengths", call, "its input 'seqlens_k' is 3"},
        outputs);
  check({grouped + "float[2, 3, 4, 4] past, int32[2] lengths", call,
         "its input 'past_key' is 2x3x4x4"},
        outputs);
}

TEST_CASE("a RotaryEmbedding's positions are a row or one each") {
  const std::string operands = "float[2, 3, 4, 8] x, float[9, 4] c, ";
  const std::string output = "float[A, B, C, D] y";
  for (const char* positions : {"2, 4", "1, 4", "2, 1", "1, 1"})
    check(
        {fmt::format("{}int64[{}] p", operands, positions), "y = RotaryEmbedding(x, c, c, p)", ""},
        output);
  for (const char* positions : {"4", "1", "2, 3"})
    check({fmt::format("{}int64[{}] p", operands, positions), "y = RotaryEmbedding(x, c, c, p)",
           "its input 'position_ids' is"},
          output);
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
  auto* again = model.mutable_graph()->add_input();
  *again = model.graph().input(0);
  CHECK_THAT(error_of(model), Contains("the graph's input 'x' is listed twice"));
  again->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  CHECK_THAT(error_of(model), Contains("the graph's input 'x' is listed twice"));
  again->clear_name();
  CHECK_THAT(error_of(model), Contains("an input of the graph has no name"));
}
