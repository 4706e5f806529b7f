// Reductions over dimensions that a constant input names.

#include <algorithm>

#include "sharding/decomposition.h"
#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// The dimensions that are reduced, ascending; nullopt where only a run would tell.
std::optional<std::vector<std::size_t>> reduced_dimensions(const Operator& op) {
  if (op.is_computed(1)) return std::nullopt;
  auto axes = op.constant_ints(1);
  const bool reduces_all = op.node.int_attribute("noop_with_empty_axes", 0) == 0;
  if (!axes || axes->empty()) axes = reduces_all ? std::nullopt : std::optional(Shape{});
  std::vector<std::size_t> dims = op.dimensions(axes);
  std::ranges::sort(dims);
  return dims;
}

/// Reduced dimensions become factors of this kind, or are whole where there is none.
ShardingRule reduction(const Operator& op, std::optional<FactorKind> kind,
                       bool never_empty = false) {
  const auto dims = reduced_dimensions(op);
  if (!dims) return replicated(op);
  std::string text = letters(op.rank());
  std::string result = text;
  std::string reduced;
  for (const std::size_t d : *dims) {
    result[d] = op.node.int_attribute("keepdims", 1) != 0 ? '1' : ' ';
    reduced += text[d];
    if (!kind) text[d] = '1';
  }
  std::erase(result, ' ');
  return op.rule({text}, {result},
                 kind ? options_of(reduced, *kind, never_empty) : std::vector<FactorOptions>{});
}

/// A floating-point extremum over nothing is an infinity; an integer one is undefined. Booleans
/// have no collective.
ShardingRule extremum(const Operator& op, FactorKind kind) {
  if (op.type() == graph::DataType::boolean) return reduce_whole(op);
  return reduction(op, kind, !graph::is_floating_point(op.type()));
}

/// A function of sums, which must be whole before it is taken. `decompose` gets the input, wide,
/// and the dimensions, and keeps these.
ShardingRule of_sums(const Operator& op,
                     graph::ValueId (*decompose)(Decomposer&, graph::ValueId x,
                                                 const std::vector<std::size_t>& dims)) {
  if (!graph::is_floating_point(op.type())) return reduce_whole(op);
  ShardingRule rule = reduction(op, FactorKind::normalized);
  const auto dims = reduced_dimensions(op);
  if (!dims) return rule;
  rule.decompose = [dims = *dims, decompose](Decomposer& ops) {
    const graph::ValueId result = decompose(ops, ops.wide(ops.input(0)), dims);
    const bool keeps = ops.node().int_attribute("keepdims", 1) != 0;
    ops.set_output(
        0, keeps ? result : ops.make("Squeeze", {result, ops.ints({dims.begin(), dims.end()})}));
  };
  return rule;
}

}  // namespace

/// Sums, also of what is first squared or made absolute.
ShardingRule reduce_sum(const Operator& op) { return reduction(op, FactorKind::sum); }

/// Equal shares make the mean of means the mean; integers would be rounded twice.
ShardingRule reduce_mean(const Operator& op) {
  if (!graph::is_floating_point(op.type())) return reduce_whole(op);
  return reduction(op, FactorKind::mean);
}

ShardingRule reduce_max(const Operator& op) { return extremum(op, FactorKind::max); }

ShardingRule reduce_min(const Operator& op) { return extremum(op, FactorKind::min); }

ShardingRule reduce_l2(const Operator& op) {
  return of_sums(op, [](Decomposer& ops, auto x, const auto& dims) {
    return ops.make("Sqrt", {ops.reduce("ReduceSumSquare", x, dims)});
  });
}

ShardingRule reduce_log_sum(const Operator& op) {
  return of_sums(op, [](Decomposer& ops, auto x, const auto& dims) {
    return ops.make("Log", {ops.reduce("ReduceSum", x, dims)});
  });
}

/// An infinite maximum is not taken off: infinities have no difference.
ShardingRule reduce_log_sum_exp(const Operator& op) {
  return of_sums(op, [](Decomposer& ops, auto x, const auto& dims) {
    const auto largest = ops.reduce("ReduceMax", x, dims);
    const auto taken = ops.make("Where", {ops.make("IsInf", {largest}), ops.number(0, x), largest});
    const auto powers = ops.make("Exp", {ops.make("Sub", {x, taken})});
    return ops.make("Add", {ops.make("Log", {ops.reduce("ReduceSum", powers, dims)}), taken});
  });
}

ShardingRule reduce_whole(const Operator& op) { return reduction(op, std::nullopt); }

}  // namespace autopar::sharding::rules
