#pragma once

#include <limits>
#include <string>
#include <vector>

#include "unit/runtime/evaluate_graph.h"
#include "unit/runtime/graph_sketch.h"

/// Written-out operators are to be recognised in all forms that exporters write, and near misses
/// not, or to stay right: the graph before fusing, run by the CPU, against the graph after, run by
/// loops.
namespace autopar::runtime::testing {

using graph::Graph;

/// A device that has every operator that passes make.
inline const KernelTable& every_kernel() {
  static const KernelTable table = [] {
    KernelTable all = cpu_kernels();
    for (const char* op : {"RotaryEmbedding", "MaskedSoftmax", "Attention"})
      all.entries.push_back({passes::internal_domain, op, nullptr});
    for (KernelEntry& entry : all.entries) entry.serves = nullptr;
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

inline int count(const Graph& graph, const std::string& op_type) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const graph::Node& node) { return node.op_type == op_type; }));
}

inline const graph::Node& only(const Graph& graph, const std::string& op_type) {
  REQUIRE(count(graph, op_type) == 1);
  return *std::ranges::find(graph.nodes, op_type, &graph::Node::op_type);
}

using Pass = void (*)(Graph&, const KernelTable&);

/// The graph after the passes, which computes what it computed before.
inline Graph after(const Graph& before, const std::vector<Pass>& list, std::uint32_t seed = 1) {
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

}  // namespace autopar::runtime::testing
