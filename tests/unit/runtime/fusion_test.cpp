// Written-out operators are recognised in all forms that exporters write, and near misses are not,
// or stay right: the graph before fusing, run by the CPU, against the graph after, run by loops.

#include <limits>

#include "graph/onnx_import.h"
#include "unit/runtime/evaluate_graph.h"
#include "unit/runtime/graph_sketch.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;
using graph::ValueId;

/// A device that has every operator that passes make.
const KernelTable& every_kernel() {
  static const KernelTable table = [] {
    KernelTable all = cpu_kernels();
    for (const char* op : {"RotaryEmbedding", "MaskedSoftmax", "Attention"})
      all.entries.push_back({passes::internal_domain, op, nullptr});
    all.serves = nullptr;
    return all;
  }();
  return table;
}

/// A Builder that tells shapes itself.
struct Spelling : Builder {
  DataType type = DataType::float32;
  Random random{7};

  DataType type_of(ValueId id) const { return graph.value(id).type; }
  const Shape& shape(ValueId id) const { return graph.value(id).shape; }

  ValueId typed(ValueId id, DataType as) {
    graph.value(id).type = as;
    return id;
  }
  ValueId in(const std::string& name, const Shape& of, DataType as) {
    return typed(input(name, of), as);
  }
  ValueId in(const std::string& name, const Shape& of) { return in(name, of, type); }
  ValueId number(double value, DataType as) {
    return graph.add_constant("number", tensor_of(as, {}, {value}));
  }
  ValueId weight(const Shape& of, DataType as) {
    return graph.add_constant("weight", random_in(as, of, random, 0.5, 1.5));
  }
  ValueId integers(const std::vector<std::int64_t>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return graph.add_constant("integers", Tensor::of_int64({n}, values));
  }
  ValueId op(const std::string& op_type, const std::vector<ValueId>& inputs, const Shape& to,
             std::map<std::string, Attribute> attributes = {}) {
    const DataType as = type_of(inputs[0]);
    return typed(node(op_type, inputs, to, std::move(attributes)), as);
  }
  ValueId unary(const std::string& op_type, ValueId x) { return op(op_type, {x}, shape(x)); }
  ValueId binary(const std::string& op_type, ValueId a, ValueId b) {
    Shape to = shape(a).size() >= shape(b).size() ? shape(a) : shape(b);
    for (const ValueId each : {a, b})
      for (std::size_t d = 0; d < shape(each).size(); ++d) {
        std::int64_t& extent = to[to.size() - shape(each).size() + d];
        extent = std::max(extent, shape(each)[d]);
      }
    return op(op_type, {a, b}, to);
  }
  /// Operands either way round.
  ValueId either(const std::string& op_type, ValueId a, ValueId b) {
    return random() % 2 == 0 ? binary(op_type, a, b) : binary(op_type, b, a);
  }
  ValueId scaled(ValueId x, double by) { return either("Mul", x, number(by, type_of(x))); }
  ValueId cast(ValueId x, DataType to) {
    return typed(op("Cast", {x}, shape(x), {{"to", static_cast<std::int64_t>(to)}}), to);
  }
  ValueId reshaped(ValueId x, const Shape& to) { return op("Reshape", {x, integers(to)}, to); }
  ValueId permuted(ValueId x, const std::vector<std::int64_t>& perm) {
    return typed(transpose(x, perm), type_of(x));
  }
  ValueId where(ValueId condition, ValueId yes, ValueId no) {
    Shape to = shape(yes).size() >= shape(no).size() ? shape(yes) : shape(no);
    return typed(node("Where", {condition, yes, no}, to), type_of(yes));
  }
  ValueId mean(ValueId x, std::int64_t axis = -1) {
    Shape to = shape(x);
    to[axis < 0 ? to.size() - 1 : static_cast<std::size_t>(axis)] = 1;
    return op("ReduceMean", {x, integers({axis})}, to, {{"keepdims", std::int64_t{1}}});
  }
  ValueId matmul(ValueId a, ValueId b) {
    Shape to = shape(a);
    to.back() = shape(b).back();
    return op("MatMul", {a, b}, to);
  }
  ValueId slice(ValueId x, std::int64_t begin, std::int64_t end) {
    Shape to = shape(x);
    const auto last = static_cast<std::int64_t>(to.size()) - 1;
    to.back() = std::min(end, to.back()) - begin;
    return op("Slice", {x, integers({begin}), integers({end}), integers({last}), integers({1})},
              to);
  }
  void ends(ValueId out) { graph.outputs.push_back(out); }
};

int count(const Graph& graph, const std::string& op_type) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const graph::Node& node) { return node.op_type == op_type; }));
}

const graph::Node& only(const Graph& graph, const std::string& op_type) {
  REQUIRE(count(graph, op_type) == 1);
  return *std::ranges::find(graph.nodes, op_type, &graph::Node::op_type);
}

using Pass = void (*)(Graph&, const KernelTable&);

/// The graph after the passes, which computes what it computed before.
Graph after(const Graph& before, std::vector<Pass> list, std::uint32_t seed = 1) {
  Graph fused = before;
  for (const Pass pass : list) {
    pass(fused, every_kernel());
    remove_dead_nodes(fused);
    check_invariants(fused);
  }
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const ValueId id : before.inputs) {
    const graph::Value& value = before.value(id);
    inputs.push_back(graph::is_floating_point(value.type)
                         ? random_floats(random, value.shape, value.type)
                         : random_in(value.type, value.shape, random, -9, 9));
  }
  Executable executable(before, {.threads = 1, .collectives = nullptr, .optimize = false});
  const auto expected = run(executable, before, inputs);
  const auto actual = GraphEvaluator(fused).run(inputs);
  double tolerance = 0;  // of the coarsest type
  for (const graph::Value& value : before.values)
    if (graph::is_floating_point(value.type))
      tolerance = std::max(tolerance, 10 * tolerance_of(value.type));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto values = doubles(actual[i]);
    const auto wanted = doubles(expected[i]);
    REQUIRE(values.size() == wanted.size());
    for (std::size_t j = 0; j < wanted.size(); ++j)
      REQUIRE(values[j] == Approx(wanted[j]).epsilon(tolerance).margin(tolerance));
  }
  return fused;
}

// Normalisation

struct NormalizationForm {
  DataType type = DataType::float32;  ///< of input and result
  DataType inner = DataType::float32;
  bool centred = false;
  bool bias = false;
  bool square_is_product = false;
  int root = 0;  ///< Div, Reciprocal, 1 / or Pow
  std::int64_t axis = -1;
};

ValueId spell(Spelling& s, const NormalizationForm& form, ValueId x) {
  const auto inner = [&](ValueId value) {
    return form.inner == form.type ? value : s.cast(value, form.inner);
  };
  ValueId base = x;
  if (form.centred) base = s.binary("Sub", x, s.mean(x));
  base = inner(base);
  const ValueId square = form.square_is_product ? s.binary("Mul", base, base)
                                                : s.binary("Pow", base, s.number(2, form.inner));
  const ValueId variance = s.either("Add", s.mean(square, form.axis), s.number(1e-5, form.inner));
  ValueId normal = graph::no_value;
  if (form.root == 0)
    normal = s.binary("Div", base, s.unary("Sqrt", variance));
  else if (form.root == 1)
    normal = s.either("Mul", base, s.unary("Reciprocal", s.unary("Sqrt", variance)));
  else if (form.root == 2)
    normal =
        s.either("Mul", base, s.binary("Div", s.number(1, form.inner), s.unary("Sqrt", variance)));
  else
    normal = s.either("Mul", base, s.binary("Pow", variance, s.number(-0.5, form.inner)));
  if (form.inner != form.type) normal = s.cast(normal, form.type);
  const ValueId scaled = s.either("Mul", normal, s.weight({8}, form.type));
  return form.bias ? s.either("Add", scaled, s.weight({8}, form.type)) : scaled;
}

const std::vector<Pass> normalizations = {passes::drop_identities, passes::fuse_normalizations};

TEST_CASE("Normalisations are recognised in every spelling") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const bool centred : {false, true})
      for (const bool bias : {false, centred})
        for (const bool product : {false, true})
          for (const int root : {0, 1, 2, 3}) {
            const bool widest = type == DataType::float16 && centred;  // as TorchScript does it
            Spelling s;
            const ValueId x = s.in("x", {3, 5, 8}, type);
            s.ends(spell(s,
                         {type, widest ? DataType::float64 : DataType::float32, centred, bias,
                          product, root},
                         x));
            const Graph fused = after(s.graph, normalizations);
            CAPTURE(name_of(type), centred, bias, product, root);
            const auto& node = only(fused, centred ? "LayerNormalization" : "RMSNormalization");
            CHECK(fused.nodes.size() == 1);
            CHECK(node.inputs.size() == (bias ? 3U : 2U));
            CHECK(node.float_attribute("epsilon", 0) == Approx(1e-5));
          }
}

TEST_CASE("What only resembles a normalisation stays as it is") {
  const auto fuses = [](const std::function<void(Spelling&, ValueId)>& write) {
    Spelling s;
    write(s, s.in("x", {3, 8, 8}));
    const Graph fused = after(s.graph, normalizations);
    return count(fused, "LayerNormalization") + count(fused, "RMSNormalization");
  };
  CHECK(fuses([](Spelling& s, ValueId x) { s.ends(spell(s, {}, x)); }) == 1);
  CHECK(fuses([](Spelling& s, ValueId x) { s.ends(spell(s, {.axis = 1}, x)); }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the mean is read by others
          s.ends(spell(s, {}, x));
          s.ends(s.graph.nodes[1].outputs[0]);
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // epsilon is no constant
          const ValueId squares = s.mean(s.binary("Mul", x, x));
          const ValueId sum = s.binary("Add", squares, s.unary("Abs", s.in("epsilon", {})));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the variance is another value's
          const ValueId y = s.unary("Sin", x);
          const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", y, y)), s.number(1, s.type));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the power is no square
          const ValueId squares = s.binary("Pow", s.unary("Abs", x), s.number(2.00001, s.type));
          const ValueId sum = s.binary("Add", s.mean(squares), s.number(1, s.type));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId) {  // of integers
          s.type = DataType::int32;
          const ValueId x = s.in("i", {3, 8});
          const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", x, x)), s.number(1, s.type));
          const ValueId root = s.binary("Pow", sum, s.number(0.5, DataType::float32));
          s.ends(s.binary("Mul", s.binary("Div", x, root), s.weight({8}, s.type)));
        }) == 0);
  CHECK(
      fuses([](Spelling& s, ValueId x) {  // one scale for each row
        const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", x, x)), s.number(1, s.type));
        s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8, 1}, s.type)));
      }) == 0);
}

// Activations

const std::vector<Pass> activations = {passes::fuse_activations};

ValueId spell_gelu(Spelling& s, ValueId x, int order, double half, double root) {
  const DataType type = s.type_of(x);
  const ValueId bent = s.unary(
      "Erf", order % 2 == 0 ? s.binary("Div", x, s.number(1 / root, type)) : s.scaled(x, root));
  const ValueId sum = s.either("Add", bent, s.number(1, type));
  if (order < 2) return s.scaled(s.either("Mul", x, sum), half);
  if (order < 4) return s.either("Mul", s.scaled(x, half), sum);
  return s.either("Mul", x, s.scaled(sum, half));
}

ValueId spell_tanh_gelu(Spelling& s, ValueId x, int order, double cubic) {
  const DataType type = s.type_of(x);
  const double root = std::sqrt(2 / std::acos(-1));
  ValueId inner = graph::no_value;
  if (order < 2) {
    const ValueId cube = order == 0 ? s.binary("Pow", x, s.number(3, type))
                                    : s.binary("Mul", s.binary("Mul", x, x), x);
    inner = s.scaled(s.either("Add", x, s.scaled(cube, cubic)), root);
  } else {
    const ValueId square = s.binary("Mul", s.scaled(x, cubic), x);
    inner = s.either("Mul", s.scaled(x, root), s.either("Add", s.number(1, type), square));
  }
  const ValueId sum = s.either("Add", s.unary("Tanh", inner), s.number(1, type));
  return s.either("Mul", s.scaled(x, 0.5), sum);
}

TEST_CASE("Activations are recognised in every order of their factors") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (int order = 0; order < 6; ++order) {
      Spelling s;
      s.random.seed(static_cast<std::uint32_t>(order));
      s.ends(spell_gelu(s, s.in("x", {4, 6}, type), order, 0.5, 0.70710678));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 1);
      CHECK(only(fused, "Gelu").string_attribute("approximate", "") == "none");
    }
    for (int order = 0; order < 3; ++order) {
      Spelling s;
      s.ends(spell_tanh_gelu(s, s.in("x", {4, 6}, type), order, 0.044715));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 1);
      CHECK(only(fused, "Gelu").string_attribute("approximate", "") == "tanh");
    }
    for (const double slope : {1.0, 1.702}) {
      Spelling s;
      const ValueId x = s.in("x", {4, 6}, type);
      const ValueId gate = s.unary("Sigmoid", slope == 1 ? x : s.scaled(x, slope));
      s.ends(s.either("Mul", s.either("Mul", x, gate), s.in("up", {4, 6}, type)));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 2);
      CHECK(only(fused, "Swish").float_attribute("alpha", 0) == Approx(slope).epsilon(0.01));
    }
  }
}

TEST_CASE("An activation with another number, or of another value, stays as it is") {
  const auto nodes_of = [](const std::function<void(Spelling&, ValueId)>& write) {
    Spelling s;
    write(s, s.in("x", {4, 6}));
    const Graph fused = after(s.graph, activations);
    return count(fused, "Gelu") + count(fused, "Swish");
  };
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 0, 0.5, 0.7071068)); }) == 1);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 0, 0.51, 0.7071068)); }) ==
        0);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 2, 0.5, 0.7)); }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_tanh_gelu(s, x, 1, 0.05)); }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) {
          s.ends(s.binary("Mul", s.unary("Sin", x), s.unary("Sigmoid", x)));
        }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) {  // the sigmoid is needed for itself
          const ValueId gate = s.unary("Sigmoid", x);
          s.ends(s.binary("Mul", x, gate));
          s.ends(gate);
        }) == 0);
}

// Rotary embedding

struct RotaryForm {
  bool split = false;
  bool negate_first = false;  ///< before the cut
  bool transposed = false;
  bool cos_is_input = false;
  std::int64_t cut = 4;
  bool upper_first = true;
};

ValueId spell(Spelling& s, const RotaryForm& form) {
  const ValueId given = s.in("x", form.transposed ? Shape{2, 5, 3, 8} : Shape{2, 3, 5, 8});
  const ValueId x = form.transposed ? s.permuted(given, {0, 2, 1, 3}) : given;
  const auto factor = [&](const char* name) {
    return form.cos_is_input ? s.in(name, {1, 5, 8}) : s.weight({1, 1, 5, 8}, s.type);
  };
  const ValueId cos = factor("cos");
  const ValueId sin = factor("sin");
  ValueId lower = graph::no_value;
  ValueId upper = graph::no_value;
  if (form.split) {
    lower = s.op("Split", {x, s.integers({4, 4})}, {2, 3, 5, 4}, {{"axis", std::int64_t{-1}}});
    upper = s.value("upper", {2, 3, 5, 4});
    s.graph.nodes.back().outputs.push_back(upper);
  } else {
    lower = s.slice(x, 0, form.cut);
    upper = s.slice(form.negate_first ? s.unary("Neg", x) : x, form.cut,
                    std::numeric_limits<std::int64_t>::max());
  }
  if (!form.negate_first) upper = s.unary("Neg", upper);
  const std::vector<ValueId> halves =
      form.upper_first ? std::vector{upper, lower} : std::vector{lower, upper};
  const ValueId rotated = s.op("Concat", halves, {2, 3, 5, 8}, {{"axis", std::int64_t{-1}}});
  return s.either("Add", s.either("Mul", x, cos), s.either("Mul", rotated, sin));
}

const std::vector<Pass> rotary = {passes::fuse_rotary_embeddings};

TEST_CASE("Rotary embeddings are recognised in every spelling, and go before a Transpose") {
  for (const bool split : {false, true})
    for (const bool negate_first : {false, true})
      for (const bool transposed : {false, true})
        for (const bool cos_is_input : {false, true}) {
          if (split && negate_first) continue;
          Spelling s;
          s.ends(spell(s, {split, negate_first, transposed, cos_is_input}));
          const Graph fused = after(s.graph, rotary);
          CHECK(only(fused, "RotaryEmbedding").inputs[0] == fused.inputs[0]);
          CHECK(count(fused, "Transpose") == (transposed ? 1 : 0));
          CHECK(count(fused, "Mul") + count(fused, "Concat") == 0);
        }
}

TEST_CASE("What only resembles a rotary embedding stays as it is") {
  for (const RotaryForm form : {RotaryForm{.cut = 3}, RotaryForm{.upper_first = false}}) {
    Spelling s;
    s.ends(spell(s, form));
    CHECK(count(after(s.graph, rotary), "RotaryEmbedding") == 0);
  }
  Spelling s;  // the rotated half is needed for itself
  s.ends(spell(s, {}));
  s.ends(std::ranges::find(s.graph.nodes, "Concat", &graph::Node::op_type)->outputs[0]);
  CHECK(count(after(s.graph, rotary), "RotaryEmbedding") == 0);
}

// Attention

enum class MaskForm {
  none,
  nothing_hidden,
  added,
  causal,
  causal_where,
  causal_fill,
  where,
  banded
};

struct AttentionForm {
  std::int64_t batch = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t queries = 3;
  std::int64_t keys = 5;
  int keys_transposed = 0;  ///< at once, later, or as a batch of matrices
  int scale = 0;            ///< none, of the scores by Mul or Div, or half on either side
  MaskForm mask = MaskForm::none;
  bool nan_guard = false;
  DataType type = DataType::float32;
  /// In half types: none, around the softmax, from the scores to the result, or for good.
  int casts = 0;
  bool result_transposed = true;
  bool repeats_first = false;  ///< head h reads head h % kv_heads, which no attention does
};

/// [batch, rows, heads, 8], as a projection leaves it.
ValueId projection(Spelling& s, const std::string& name, std::int64_t rows, std::int64_t heads,
                   std::int64_t batch) {
  return s.reshaped(s.in(name, {batch, rows, heads * 8}), {batch, rows, heads, 8});
}

ValueId repeated(Spelling& s, const AttentionForm& form, ValueId x) {
  if (form.heads == form.kv_heads) return x;
  const std::int64_t times = form.heads / form.kv_heads;
  const std::int64_t at = form.repeats_first ? 1 : 2;
  Shape shape = s.shape(x);
  shape.insert(shape.begin() + at, 1);
  x = s.op("Unsqueeze", {x, s.integers({at})}, shape);
  shape[static_cast<std::size_t>(at)] = times;
  x = s.op("Expand", {x, s.integers(shape)}, shape);
  return s.reshaped(x, {form.batch, form.heads, form.keys, 8});
}

Tensor mask_of(const AttentionForm& form, DataType type, double seen, double hidden) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < form.queries; ++i)
    for (std::int64_t j = 0; j < form.keys; ++j) {
      const std::int64_t ahead = j - (i + form.keys - form.queries);
      const bool is_hidden = form.mask != MaskForm::nothing_hidden &&
                             (ahead > 0 || (form.mask == MaskForm::banded && ahead < -1));
      values.push_back(is_hidden ? hidden : seen);
    }
  return tensor_of(type, {1, 1, form.queries, form.keys}, values);
}

ValueId masked(Spelling& s, const AttentionForm& form, ValueId scores) {
  const DataType type = s.type_of(scores);
  const double lowest = type == DataType::float16 ? -65504 : -3e38;
  const auto constant = [&](DataType as, double seen, double hidden) {
    return s.graph.add_constant("mask", mask_of(form, as, seen, hidden));
  };
  switch (form.mask) {
    case MaskForm::none:
      return scores;
    case MaskForm::nothing_hidden:
    case MaskForm::causal:
    case MaskForm::banded:
      return s.either("Add", scores, constant(type, 0, lowest));
    case MaskForm::added:
      return s.either("Add", scores, s.in("given_mask", {form.batch, 1, 1, form.keys}, type));
    case MaskForm::causal_where:
      return s.where(constant(DataType::boolean, 1, 0), scores, s.number(lowest, type));
    case MaskForm::causal_fill:  // and, as GPT-2 once did, another mask behind it
      scores = s.where(constant(DataType::boolean, 0, 1), s.number(lowest, type), scores);
      return s.either("Add", scores, s.in("given_mask", {form.batch, 1, 1, form.keys}, type));
    case MaskForm::where:
      return s.where(
          s.in("given_mask", {form.batch, 1, form.queries, form.keys}, DataType::boolean), scores,
          s.number(-3, type));
  }
  return scores;
}

ValueId spell(Spelling& s, const AttentionForm& form) {
  s.type = form.type;
  ValueId q = s.permuted(projection(s, "q", form.queries, form.heads, form.batch), {0, 2, 1, 3});
  const ValueId k_rows = projection(s, "k", form.keys, form.kv_heads, form.batch);
  ValueId v = s.permuted(projection(s, "v", form.keys, form.kv_heads, form.batch), {0, 2, 1, 3});
  v = repeated(s, form, v);
  ValueId k = graph::no_value;
  if (form.keys_transposed == 0 && form.heads == form.kv_heads) {
    k = s.permuted(k_rows, {0, 2, 3, 1});
  } else {
    k = repeated(s, form, s.permuted(k_rows, {0, 2, 1, 3}));
    if (form.keys_transposed == 2) {
      k = s.reshaped(k, {form.batch * form.heads, form.keys, 8});
      k = s.reshaped(s.permuted(k, {0, 2, 1}), {form.batch, form.heads, 8, form.keys});
    } else {
      k = s.permuted(k, {0, 1, 3, 2});
    }
  }
  if (form.scale == 3) {
    q = s.scaled(q, 0.5);
    k = s.scaled(k, 0.75);
  }
  ValueId p = s.matmul(q, k);
  if (form.scale == 1) p = s.scaled(p, 0.375);
  if (form.scale == 2) p = s.binary("Div", p, s.number(2.5, form.type));
  if (form.casts != 0) p = s.cast(p, DataType::float32);
  p = masked(s, form, p);
  p = s.op("Softmax", {p}, s.shape(p), {{"axis", std::int64_t{-1}}});
  if (form.nan_guard) {
    const ValueId is_nan = s.typed(s.unary("IsNaN", p), DataType::boolean);
    p = s.where(is_nan, s.number(0, s.type_of(p)), p);
  }
  if (form.casts == 1) p = s.cast(p, form.type);
  if (form.casts >= 2) v = s.cast(v, DataType::float32);
  ValueId out = s.matmul(p, v);
  if (form.casts == 2) out = s.cast(out, form.type);
  if (form.result_transposed) out = s.permuted(out, {0, 2, 1, 3});
  return s.reshaped(out, {form.batch * form.queries, form.heads * 8});
}

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
    form.mask = static_cast<MaskForm>(pick(8));
    form.nan_guard = pick(2) == 0;
    form.type = std::array{DataType::float32, DataType::float16,
                           DataType::bfloat16}[static_cast<std::size_t>(pick(3))];
    form.casts = form.type == DataType::float32 ? 0 : pick(3);
    form.result_transposed = pick(2) == 0;
    Spelling s;
    s.random.seed(static_cast<std::uint32_t>(i));
    s.ends(spell(s, form));
    const bool swapped_first = pick(2) == 0;
    std::vector<Pass> list = attention;
    if (swapped_first) list.insert(list.begin(), passes::fuse_transposes);
    CAPTURE(i, form.heads, form.kv_heads, form.queries, form.keys, form.keys_transposed, form.scale,
            static_cast<int>(form.mask), form.nan_guard, name_of(form.type), form.casts);
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
                        form.mask == MaskForm::causal_fill;
    if (form.mask != MaskForm::banded)
      CHECK(node.int_attribute("causal", 0) == (causal && hides ? 1 : 0));
    CHECK(heads_of_keys(fused, node) == form.kv_heads);
  }
}

int attentions(const AttentionForm& form, const std::function<void(Spelling&)>& change = {}) {
  Spelling s;
  s.ends(spell(s, form));
  if (change) change(s);
  return count(after(s.graph, attention), "Attention");
}

ValueId result_of(Spelling& s, const std::string& op_type) {
  return std::ranges::find(s.graph.nodes, op_type, &graph::Node::op_type)->outputs[0];
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

TEST_CASE("A mask that is not triangular stays a mask") {
  Spelling s;
  s.ends(spell(s, {.queries = 4, .keys = 5, .mask = MaskForm::banded}));
  const Graph fused = after(s.graph, attention);
  CHECK(only(fused, "Attention").inputs.size() == 4);
  CHECK(only(fused, "Attention").int_attribute("causal", 0) == 0);
}

TEST_CASE("A device that does not serve attention keeps the products") {
  KernelTable table = every_kernel();
  table.serves = [](const graph::Node& node, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs) {
    return node.op_type != "Attention" || (inputs[0].type == DataType::float16 &&
                                           inputs[0].shape.back() == outputs[0].shape.back());
  };
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

// Softmax

const std::vector<Pass> masked_softmax = {passes::drop_identities, passes::fuse_masked_softmax};

TEST_CASE("A softmax takes in its scale, its last mask, a guard against NaN and Casts") {
  for (const DataType type : {DataType::float32, DataType::float16})
    for (const int casts : {0, 1})
      for (const bool guard : {false, true})
        for (const int scale : {0, 1, 2})
          for (const MaskForm mask : {MaskForm::none, MaskForm::added, MaskForm::causal,
                                      MaskForm::where, MaskForm::causal_fill}) {
            Spelling s;
            s.ends(spell(s, {.scale = scale,
                             .mask = mask,
                             .nan_guard = guard,
                             .type = type,
                             .casts = type == DataType::float32 ? 0 : casts}));
            const Graph fused = after(s.graph, masked_softmax);
            const bool is_plain = !guard && scale == 0 && mask == MaskForm::none;
            CHECK(count(fused, "MaskedSoftmax") == (is_plain ? 0 : 1));
            CHECK(count(fused, "Add") == 0);
            CHECK(count(fused, "Where") == (mask == MaskForm::causal_fill ? 1 : 0));
            if (!is_plain && mask != MaskForm::causal_fill) CHECK(count(fused, "Cast") == 0);
          }
}

TEST_CASE("A softmax over another dimension, or whose masked scores others read, stays as it is") {
  for (const bool is_read : {false, true}) {
    Spelling s;
    s.ends(spell(s, {.mask = MaskForm::added}));
    if (is_read)
      s.ends(result_of(s, "Add"));
    else
      std::ranges::find(s.graph.nodes, "Softmax", &graph::Node::op_type)->attributes["axis"] =
          std::int64_t{1};
    CHECK(count(after(s.graph, masked_softmax), "MaskedSoftmax") == 0);
  }
}

TEST_CASE("A softmax of doubles keeps numbers that are no floats") {
  const auto fuses = [](double scale, double fill) {
    Spelling s;
    const ValueId scaled = s.scaled(s.in("x", {4, 6}, DataType::float64), scale);
    const ValueId masked =
        s.where(s.in("mask", {4, 6}, DataType::boolean), scaled, s.number(fill, DataType::float64));
    s.ends(s.op("Softmax", {masked}, {4, 6}));
    return count(after(s.graph, masked_softmax, 3), "MaskedSoftmax");
  };
  CHECK(fuses(0.125, -65504) == 1);
  CHECK(fuses(0.3, -65504) == 0);
  CHECK(fuses(0.125, std::numeric_limits<double>::lowest()) == 0);
}

// Products

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

TEST_CASE("What an operand is a multiple of has its shape, and is no integer") {
  Spelling integers;
  integers.type = DataType::int32;
  ValueId x = integers.permuted(integers.in("x", {5, 4}), {1, 0});
  const ValueId two = integers.number(2, integers.type);
  x = integers.binary("Mul", integers.binary("Div", x, two), two);
  integers.ends(integers.matmul(x, integers.in("w", {5, 6})));
  after(integers.graph, {passes::fuse_permutations});

  Spelling wider;
  x = wider.binary("Mul", wider.in("x", {4, 5}), wider.weight({1, 1, 1}, wider.type));
  x = wider.scaled(wider.permuted(x, {0, 2, 1}), 1);
  wider.ends(wider.matmul(x, wider.in("w", {1, 4, 6})));
  after(wider.graph, {passes::fuse_permutations});
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
      after(s.graph, {passes::fuse_attention, passes::fuse_permutations});
    }
}

TEST_CASE("A result that others read is not permuted") {
  Spelling s;
  const ValueId product = s.matmul(s.in("a", {2, 3, 4, 5}), s.in("b", {2, 3, 5, 6}));
  s.ends(s.permuted(product, {0, 2, 1, 3}));
  s.ends(s.unary("Neg", product));
  CHECK(count(after(s.graph, {passes::fuse_permutations}), "Transpose") == 1);
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

// Models

struct Expected {
  std::string model;
  int normalizations;  ///< LayerNormalization and RMSNormalization
  int gelus;
  int rotaries;
  int attentions;
  graph::ShapeBindings shapes;
};

TEST_CASE("Each layer of the tiny models is found, whichever exporter wrote it") {
  for (const Expected& each :
       {Expected{
            "bert",
            5,
            2,
            0,
            2,
            {{"input_ids", {2, 16}}, {"attention_mask", {2, 16}}, {"token_type_ids", {2, 16}}}},
        Expected{"gpt2", 5, 2, 0, 2, {{"input_ids", {2, 16}}}},
        Expected{"llama", 5, 0, 4, 2, {{"input_ids", {2, 16}}}},
        Expected{"vit", 5, 2, 0, 2, {{"pixel_values", {2, 3, 32, 32}}}},
        Expected{"mlp", 0, 1, 0, 0, {{"x", {2, 48}}}}})
    for (const std::string exporter : {"dynamo", "torchscript"}) {
      graph::ImportOptions how;
      how.evaluate = evaluate_constants;
      how.is_native = [](std::string_view domain, std::string_view op_type) {
        return cpu_kernels().find(domain, op_type) != nullptr;
      };
      how.shapes = each.shapes;
      if (exporter == "torchscript" && (each.model == "gpt2" || each.model == "llama"))
        how.shapes["attention_mask"] = {2, 16};
      const std::filesystem::path folder(AUTOPAR_SOURCE_DIR);
      Graph graph =
          load_onnx(folder / "models/tiny" / (each.model + "-" + exporter) / "model.onnx", how);
      passes::optimize(graph, every_kernel());
      check_invariants(graph);
      CAPTURE(each.model, exporter);
      CHECK(count(graph, "LayerNormalization") + count(graph, "RMSNormalization") ==
            each.normalizations);
      const auto activated = std::ranges::count_if(graph.nodes, [](const graph::Node& node) {
        return node.string_attribute("activation", "").starts_with("Gelu");
      });
      CHECK(count(graph, "Gelu") + activated == each.gelus);
      CHECK(count(graph, "RotaryEmbedding") == each.rotaries);
      CHECK(count(graph, "Attention") == each.attentions);
      CHECK(count(graph, "Softmax") + count(graph, "MaskedSoftmax") == 0);
    }
}

}  // namespace
}  // namespace autopar::runtime
