#include <array>
#include <functional>

#include "unit/runtime/passes/attention_spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

std::int64_t heads_of_keys(const Graph& graph, const graph::Node& attention) {
  const auto permutation = attention.ints_attribute("k_perm", {0, 1, 2, 3});
  return graph.value(attention.inputs[1]).shape[static_cast<std::size_t>(permutation[1])];
}

const std::vector<Pass> attention = {passes::drop_identities, passes::fuse_attention};

TEST_CASE("Attention is recognised in every spelling") {
  Random random(3);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 300; ++i) {
    AttentionForm form;
    form.batch = 1 + pick(2);
    form.kv_heads = 1 << pick(3);
    form.heads = form.kv_heads * (1 << pick(2));
    form.queries = 1 + pick(4);
    form.keys = form.queries + pick(3);
    form.keys_transposed = pick(3);
    form.scale = pick(4);
    form.mask = static_cast<MaskForm>(pick(9));
    form.nan_guard = pick(2) == 0;
    form.type = std::array{DataType::float32, DataType::float16,
                           DataType::bfloat16}[static_cast<std::size_t>(pick(3))];
    form.casts = form.type == DataType::float32 ? 0 : pick(3);
    form.result_transposed = pick(2) == 0;
    form.merged = pick(2) == 0;
    Spelling s;
    s.random.seed(static_cast<std::uint32_t>(i));
    s.ends(spell(s, form));
    const bool swapped_first = pick(2) == 0;
    std::vector<Pass> list = attention;
    if (swapped_first) list.insert(list.begin(), passes::fuse_transposes);
    CAPTURE(i, form.heads, form.kv_heads, form.queries, form.keys, form.keys_transposed, form.scale,
            static_cast<int>(form.mask), form.nan_guard, name_of(form.type), form.casts,
            form.merged);
    const Graph fused = after(s.graph, list, static_cast<std::uint32_t>(i));
    const graph::Node& node = only(fused, "Attention");
    for (const char* gone : {"MatMul", "FusedMatMul", "Softmax", "Expand", "Where", "Mul", "Div"})
      CHECK(count(fused, gone) == 0);
    // One head, or one query, needs no Transpose; a mask that hides nothing may count as causal.
    CHECK(count(fused, "Transpose") == 0);
    const bool has_mask = form.mask == MaskForm::added || form.mask == MaskForm::where ||
                          form.mask == MaskForm::causal_fill;
    if (form.mask != MaskForm::banded) CHECK(node.inputs.size() == (has_mask ? 4U : 3U));
    const bool hides = form.queries > 1;
    const bool causal = form.mask == MaskForm::causal || form.mask == MaskForm::causal_where ||
                        form.mask == MaskForm::causal_fill || form.mask == MaskForm::causal_choice;
    if (form.mask != MaskForm::banded)
      CHECK(node.int_attribute("causal", 0) == (causal && hides ? 1 : 0));
    // Where there is one head, or one key, the fused node may count samples as heads.
    const bool is_told = !form.merged || (form.kv_heads > 1 && form.keys > 1);
    if (is_told) CHECK(heads_of_keys(fused, node) == form.kv_heads);
  }
}

int attentions(const AttentionForm& form, const std::function<void(Spelling&)>& change = {}) {
  Spelling s;
  s.ends(spell(s, form));
  if (change) change(s);
  return count(after(s.graph, attention), "Attention");
}

TEST_CASE("What only resembles attention stays as it is, or stays right") {
  CHECK(attentions({}) == 1);
  CHECK(attentions({}, [](Spelling& s) { s.ends(result_of(s, "MatMul")); }) == 0);
  CHECK(attentions({}, [](Spelling& s) { s.ends(result_of(s, "Softmax")); }) == 0);
  CHECK(attentions({}, [](Spelling& s) {
          std::ranges::find(s.graph.nodes, "Softmax", &graph::Node::op_type)->attributes["axis"] =
              std::int64_t{2};
        }) == 0);

  Spelling mask_scaled;  // the scale applies to the mask too
  {
    Spelling& s = mask_scaled;
    const ValueId scores = s.matmul(s.in("q", {1, 2, 3, 8}), s.in("k", {1, 2, 8, 3}));
    const ValueId sum = s.binary("Add", scores, s.in("mask", {3, 3}));
    const ValueId scaled = s.scaled(sum, 0.5);
    s.ends(s.matmul(s.op("Softmax", {scaled}, {1, 2, 3, 3}), s.in("v", {1, 2, 3, 8})));
  }
  CHECK(count(after(mask_scaled.graph, attention), "Attention") == 0);

  Spelling shared_keys;  // one batch of keys for all
  {
    Spelling& s = shared_keys;
    const ValueId scores = s.matmul(s.in("q", {2, 2, 3, 8}), s.in("k", {1, 2, 8, 3}));
    s.ends(s.matmul(s.op("Softmax", {scores}, {2, 2, 3, 3}), s.in("v", {2, 2, 3, 8})));
  }
  CHECK(count(after(shared_keys.graph, attention), "Attention") == 0);
}

TEST_CASE("A batch of all heads may have a mask for each, or for all of them") {
  for (const std::int64_t masks : {1, 6})
    for (const bool is_boolean : {false, true}) {
      Spelling s;
      const auto heads = [&](const char* name, std::int64_t rows) {
        const ValueId x = s.permuted(projection(s, name, rows, 3, 2), {0, 2, 1, 3});
        return s.reshaped(x, {6, rows, 8});
      };
      const ValueId k = s.permuted(heads("k", 5), {0, 2, 1});
      const ValueId scores = s.matmul(heads("q", 4), k);
      const ValueId mask =
          s.in("mask", {masks, 4, 5}, is_boolean ? DataType::boolean : DataType::float32);
      const ValueId sum =
          is_boolean ? s.where(mask, scores, s.number(-3, s.type)) : s.either("Add", scores, mask);
      s.ends(s.matmul(s.op("Softmax", {sum}, {6, 4, 5}), heads("v", 5)));
      const Graph fused = after(s.graph, attention);
      CHECK(count(fused, "Transpose") == 0);
      CHECK(only(fused, "Attention").inputs.size() == 4);
    }
}

TEST_CASE("Heads that are repeated as a whole are not taken for groups") {
  Spelling s;
  AttentionForm form{.kv_heads = 2};
  form.repeats_first = true;
  s.ends(spell(s, form));
  const Graph fused = after(s.graph, attention);
  const graph::Node& node = only(fused, "Attention");
  CHECK(heads_of_keys(fused, node) == 4);
  CHECK(count(fused, "Expand") == 2);
}

TEST_CASE("Heads that are repeated for the keys alone are no groups") {
  Spelling s;
  const AttentionForm form{.kv_heads = 2};
  const ValueId k = repeated(s, form, s.in("k", {2, 2, 5, 8}));
  const ValueId scores = s.matmul(s.in("q", {2, 4, 3, 8}), s.permuted(k, {0, 1, 3, 2}));
  s.ends(s.matmul(s.op("Softmax", {scores}, {2, 4, 3, 5}), s.in("v", {2, 4, 5, 8})));
  const Graph fused = after(s.graph, attention);
  CHECK(heads_of_keys(fused, only(fused, "Attention")) == 4);
}

TEST_CASE("A mask that is not triangular stays a mask") {
  Spelling s;
  s.ends(spell(s, {.queries = 4, .keys = 5, .mask = MaskForm::banded}));
  const Graph fused = after(s.graph, attention);
  CHECK(only(fused, "Attention").inputs.size() == 4);
  CHECK(only(fused, "Attention").int_attribute("causal", 0) == 0);
}

TEST_CASE("A triangular mask of numbers that scores may outweigh stays a mask") {
  for (const double hidden : {-1e9, -1e30}) {
    Spelling s;
    const AttentionForm form{.queries = 4, .keys = 4, .mask = MaskForm::causal};
    const ValueId mask = s.graph.add_constant("mask", mask_of(form, s.type, 0, hidden));
    const ValueId scores = s.matmul(s.in("q", {1, 2, 4, 8}), s.in("k", {1, 2, 8, 4}));
    const ValueId p = s.op("Softmax", {s.either("Add", scores, mask)}, {1, 2, 4, 4});
    s.ends(s.matmul(p, s.in("v", {1, 2, 4, 8})));
    const Graph fused = after(s.graph, attention);
    const bool is_mask = hidden == -1e9;
    CHECK(only(fused, "Attention").inputs.size() == (is_mask ? 4 : 3));
    CHECK(only(fused, "Attention").int_attribute("causal", 0) == (is_mask ? 0 : 1));
  }
}

TEST_CASE("A device that does not serve attention keeps the products") {
  KernelTable table = every_kernel();
  const auto serves = [](const graph::Node&, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs) {
    return inputs[0].type == DataType::float16 && inputs[0].shape.back() == outputs[0].shape.back();
  };
  for (KernelEntry& entry : table.entries)
    if (entry.op_type == "Attention") entry.serves = serves;
  for (const DataType type : {DataType::float32, DataType::float16}) {
    Spelling s;
    s.ends(spell(s, {.type = type}));
    passes::fuse_attention(s.graph, table);
    remove_dead_nodes(s.graph);
    check_invariants(s.graph);
    CHECK(count(s.graph, "Attention") == (type == DataType::float16 ? 1 : 0));
  }
  for (const int casts : {2, 3}) {  // a result that stays wide has more digits than the type
    Spelling s;
    s.ends(spell(s, {.type = DataType::float16, .casts = casts}));
    passes::fuse_attention(s.graph, table);
    remove_dead_nodes(s.graph);
    check_invariants(s.graph);
    CHECK(count(s.graph, "Attention") == (casts == 2 ? 1 : 0));
  }
}

TEST_CASE("A causal mask that others read, too, is not read by attention") {
  Spelling s;
  s.ends(spell(s, {.queries = 4, .keys = 4, .mask = MaskForm::causal_choice}));
  s.ends(result_of(s, "Where"));
  const Graph fused = after(s.graph, attention);
  CHECK(only(fused, "Attention").int_attribute("causal", 0) == 1);
  CHECK(only(fused, "Attention").inputs.size() == 3);
  CHECK(count(fused, "Where") == 1);
}

TEST_CASE("A causal mask hides for good, or is none") {
  // One mask with another fill in each layer.
  Spelling s;
  const ValueId mask = s.graph.add_constant(
      "mask",
      mask_of({.queries = 4, .keys = 4, .mask = MaskForm::causal}, DataType::boolean, 1, 0));
  for (const double fill : {-1e30, -1.0}) {
    const std::string layer = fill == -1 ? "second " : "first ";
    const ValueId scores =
        s.matmul(s.in(layer + "q", {1, 2, 4, 8}), s.in(layer + "k", {1, 2, 8, 4}));
    const ValueId masked = s.where(mask, scores, s.number(fill, s.type));
    s.ends(s.matmul(s.op("Softmax", {masked}, {1, 2, 4, 4}), s.in(layer + "v", {1, 2, 4, 8})));
  }
  const Graph fused = after(s.graph, attention);
  CHECK(count(fused, "Attention") == 2);
  CHECK(std::ranges::count_if(fused.nodes, [](const graph::Node& node) {
          return node.int_attribute("causal", 0) == 1;
        }) == 1);

  // A mask above it that gives keys a number of its own, which may be hidden keys.
  for (const double fill : {-2.0, -1e30}) {
    Spelling twice;
    const ValueId causal = twice.graph.add_constant(
        "mask",
        mask_of({.queries = 4, .keys = 4, .mask = MaskForm::causal}, DataType::boolean, 1, 0));
    const ValueId scores = twice.matmul(twice.in("q", {1, 2, 4, 8}), twice.in("k", {1, 2, 8, 4}));
    const ValueId hidden = twice.where(causal, scores, twice.number(-1e30, twice.type));
    const ValueId padded = twice.where(twice.in("padding", {1, 1, 4, 4}, DataType::boolean), hidden,
                                       twice.number(fill, twice.type));
    const ValueId p = twice.op("Softmax", {padded}, {1, 2, 4, 4});
    twice.ends(twice.matmul(p, twice.in("v", {1, 2, 4, 8})));
    if (fill == -2) {
      CHECK(count(after(twice.graph, attention, 5), "Attention") == 0);
    } else {  // but for queries that see nothing
      passes::fuse_attention(twice.graph, every_kernel());
      CHECK(count(twice.graph, "Attention") == 1);
    }
  }
}

}  // namespace
}  // namespace autopar::runtime
