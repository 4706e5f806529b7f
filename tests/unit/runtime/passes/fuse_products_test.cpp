#include <map>

#include "unit/runtime/passes/attention_spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

TEST_CASE("Transposes around products become permutations") {
  for (const bool result_transposed : {false, true})
    for (const int keys : {0, 1, 2})
      for (const bool swapped_first : {false, true}) {
        Spelling s;
        s.ends(spell(s, {.keys_transposed = keys, .result_transposed = result_transposed}));
        std::vector<Pass> list = {passes::fuse_permutations};
        if (swapped_first) list.insert(list.begin(), passes::fuse_transposes);
        const Graph fused = after(s.graph, list);
        CHECK(count(fused, "Transpose") == 0);
        CHECK(count(fused, "FusedMatMul") == 2);
      }
}

TEST_CASE("An operand is read through Div and Mul of one number, but not of integers") {
  for (const DataType type : {DataType::float32, DataType::int32}) {
    Spelling s;
    s.type = type;
    ValueId x = s.permuted(s.in("x", {5, 4}), {1, 0});
    const ValueId two = s.number(2, s.type);
    x = s.binary("Mul", s.binary("Div", x, two), two);
    s.ends(s.matmul(x, s.in("w", {5, 6})));
    const Graph fused = after(s.graph, {passes::fuse_permutations});
    const bool is_read_through = type == DataType::float32;
    CHECK(count(fused, "FusedMatMul") == (is_read_through ? 1 : 0));
    CHECK(count(fused, "Transpose") == (is_read_through ? 0 : 1));
  }
}

TEST_CASE("An operand is read from where it has its shape, not from before a Mul that widens it") {
  Spelling s;
  ValueId x = s.binary("Mul", s.in("x", {4, 5}), s.weight({1, 1, 1}, s.type));
  x = s.scaled(s.permuted(x, {0, 2, 1}), 1);
  s.ends(s.matmul(x, s.in("w", {1, 4, 6})));
  const Graph fused = after(s.graph, {passes::fuse_permutations});
  CHECK(count(fused, "Transpose") == 0);
  CHECK(only(fused, "FusedMatMul").int_attribute("transA", 0) == 1);
  CHECK(fused.value(only(fused, "FusedMatMul").inputs[0]).shape == Shape{1, 4, 5});
}

TEST_CASE("A permutation that is a swap of the last two dimensions is the flag") {
  Spelling s;
  s.ends(s.matmul(s.in("a", {2, 3, 4}), s.permuted(s.in("b", {2, 5, 4}), {0, 2, 1})));
  const Graph fused = after(s.graph, {passes::fuse_permutations});
  CHECK(only(fused, "FusedMatMul").int_attribute("transB", 0) == 1);
  CHECK(!only(fused, "FusedMatMul").has_attribute("b_perm"));
}

TEST_CASE("Products of no elements compute what they did") {
  for (const std::int64_t batch : {0, 2})
    for (const std::int64_t rows : {0, 3}) {
      Spelling s;
      const ValueId a = s.permuted(s.in("a", {rows, batch, 4}), {1, 0, 2});
      const ValueId product = s.matmul(a, s.in("b", {batch, 4, 5}));
      s.ends(s.permuted(s.reshaped(product, {batch * rows, 5}), {1, 0}));
      const Graph fused = after(s.graph, {passes::fuse_attention, passes::fuse_permutations});
      if (batch * rows == 0) continue;
      CHECK(count(fused, "FusedMatMul") == 1);
      CHECK(count(fused, "Transpose") == 0);
    }
}

TEST_CASE("A result that others read is not permuted") {
  for (const bool is_read : {false, true}) {
    Spelling s;
    const ValueId product = s.matmul(s.in("a", {2, 3, 4, 5}), s.in("b", {2, 3, 5, 6}));
    s.ends(s.permuted(product, {0, 2, 1, 3}));
    if (is_read) s.ends(s.unary("Neg", product));
    CHECK(count(after(s.graph, {passes::fuse_permutations}), "Transpose") == (is_read ? 1 : 0));
  }
}

TEST_CASE("A Gemm that scales nothing, its bias and an activation become one product") {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const bool has_bias : {false, true})
        for (const char* activation : {"", "Relu", "Gelu", "GeluTanh"}) {
          Spelling s;
          std::vector<ValueId> inputs = {s.in("a", trans_a ? Shape{4, 6} : Shape{6, 4}),
                                         s.weight(trans_b ? Shape{5, 4} : Shape{4, 5}, s.type)};
          if (has_bias) inputs.push_back(s.weight({5}, s.type));
          ValueId out =
              s.op("Gemm", inputs, {6, 5},
                   {{"transA", std::int64_t{trans_a}}, {"transB", std::int64_t{trans_b}}});
          out = s.reshaped(out, {2, 3, 5});
          const std::string name = activation;
          if (name == "Relu") out = s.unary("Relu", out);
          if (name == "Gelu") out = s.unary("Gelu", out);
          if (name == "GeluTanh")
            out = s.op("Gelu", {out}, {2, 3, 5}, {{"approximate", std::string("tanh")}});
          s.ends(out);
          const Graph fused =
              after(s.graph, {passes::fuse_biases, passes::fuse_product_activations});
          CHECK(fused.nodes.size() == 2);
          CHECK(only(fused, "FusedMatMul").string_attribute("activation", "") == name);
        }
  Spelling s;
  const ValueId product = s.op("MatMul", {s.in("a", {6, 4}), s.weight({4, 5}, s.type)}, {6, 5});
  s.ends(s.unary("Relu", product));
  CHECK(after(s.graph, {passes::fuse_product_activations}).nodes.size() == 1);
}

TEST_CASE("A Gemm that scales, or adds more than a row, stays a Gemm") {
  const auto gemms = [](std::map<std::string, Attribute> attributes, const Shape& addend) {
    Spelling s;
    s.ends(s.op("Gemm", {s.in("a", {6, 4}), s.in("b", {4, 5}), s.in("c", addend)}, {6, 5},
                std::move(attributes)));
    return count(after(s.graph, {passes::fuse_biases}), "Gemm");
  };
  CHECK(gemms({}, {5}) == 0);
  CHECK(gemms({{"alpha", 0.5F}}, {5}) == 1);
  CHECK(gemms({{"beta", 0.5F}}, {5}) == 1);
  CHECK(gemms({}, {6, 5}) == 1);
  CHECK(gemms({}, {1}) == 1);
}

TEST_CASE("What changes nothing is read through") {
  Spelling s;
  const ValueId x = s.in("x", {2, 3}, DataType::float16);
  ValueId y = s.cast(s.cast(x, DataType::float32), DataType::float16);
  y = s.reshaped(s.cast(y, DataType::float16), {2, 3});
  y = s.permuted(y, {0, 1});
  s.ends(s.unary("Neg", y));
  CHECK(after(s.graph, {passes::drop_identities}).nodes.size() == 1);

  Spelling rounds;  // to a narrower type and back is no identity; nor is what leaves the graph
  const ValueId wide = rounds.in("x", {2, 3});
  const ValueId back = rounds.cast(rounds.cast(wide, DataType::bfloat16), DataType::float32);
  rounds.ends(rounds.unary("Neg", back));
  rounds.ends(rounds.reshaped(wide, {2, 3}));
  CHECK(after(rounds.graph, {passes::drop_identities}).nodes.size() == 4);
}

}  // namespace
}  // namespace autopar::runtime
