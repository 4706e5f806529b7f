#include "sharding/op_shard_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sharding/axis_uses.h"

namespace autopar::sharding {
namespace {

/// By ReduceFunction.
constexpr std::array<std::string_view, 3> function_names{"none", "all-reduce", "reduce-scatter"};

/// The mesh axes over which the inputs of each linear group of the rule are partial.
using GroupAxes = std::vector<std::vector<int>>;

/// The first to the last element of a dimension that a share of each of its factors picks out. With
/// gaps, where a minor factor is split and a major one is not, it is longer than a share.
Range span_in_dimension(const std::vector<int>& factors, const ShardingRule& rule,
                        const std::vector<Range>& ranges) {
  Range span{0, 1};
  for (const int f : factors) {
    const std::int64_t size = rule.factors[f].size;
    if (ranges[f].size() == 0) return {};
    span = {span.begin * size + ranges[f].begin, (span.end - 1) * size + ranges[f].end};
  }
  return span;
}

/// Makes the specs of one choice of factor axes, or finds that the rule forbids it.
class ChoiceMaker {
 public:
  ChoiceMaker(const ShardingRule& rule, const DeviceMesh& mesh) : rule_(rule), mesh_(mesh) {}

  /// The choice before its reductions: `outputs` equal `computed` and nothing is reduced.
  std::optional<OpShardSpec> make(const FactorAxes& factor_axes,
                                  const GroupAxes& group_axes) const {
    if (!factors_allow(factor_axes)) return std::nullopt;
    OpShardSpec choice;
    choice.factor_axes = factor_axes;
    for (const auto& tensor : rule_.inputs) {
      const auto spec = spec_of(tensor, factor_axes);
      if (!spec) return std::nullopt;
      choice.inputs.push_back(*spec);
    }
    for (std::size_t g = 0; g < group_axes.size(); ++g) {
      for (const int input : rule_.linear[g])
        add_partial(group_axes[g], Reduce::sum, choice.inputs[input]);
    }
    for (const auto& tensor : rule_.outputs) {
      auto spec = spec_of(tensor, factor_axes);
      if (!spec || !add_reductions(tensor, factor_axes, *spec)) return std::nullopt;
      for (const std::vector<int>& axes : group_axes) {
        if (!add_partial(axes, Reduce::sum, *spec)) return std::nullopt;
      }
      choice.computed.push_back(*spec);
    }
    choice.outputs = choice.computed;
    choice.reductions.assign(choice.outputs.size(), ReduceFunction::none);
    return choice;
  }

 private:
  bool factors_allow(const FactorAxes& factor_axes) const {
    // A decomposition has reshapes, which cannot be split where they have no elements.
    const bool is_empty = std::ranges::find(rule_.factors, 0, &Factor::size) != rule_.factors.end();
    if (is_empty && splits_normalized(rule_, factor_axes)) return false;
    for (std::size_t f = 0; f < factor_axes.size(); ++f) {
      const Factor& factor = rule_.factors[f];
      if (is_even(factor, factor_axes[f])) continue;
      if (factor.even || (factor.never_empty && leaves_one_empty(factor, factor_axes[f])))
        return false;
    }
    return true;
  }

  bool is_even(const Factor& factor, const std::vector<int>& axes) const {
    return factor.size % mesh_.group_size(axes) == 0;
  }

  bool leaves_one_empty(const Factor& factor, const std::vector<int>& axes) const {
    for (int rank = 0; rank < mesh_.num_devices(); ++rank)
      if (shard_range({0, factor.size}, axes, mesh_, mesh_.coordinates(rank)).size() == 0)
        return true;
    return false;
  }

  /// Nullopt where an axis would stand twice, or where the shares of a dimension's factors are not
  /// the shares that the spec gives the dimension.
  std::optional<TensorShardSpec> spec_of(const TensorFactors& tensor,
                                         const FactorAxes& factor_axes) const {
    TensorShardSpec spec;
    std::vector<int> used;
    for (const std::vector<int>& factors : tensor) {
      std::vector<int>& axes = spec.dims.emplace_back();
      for (const int f : factors) {
        axes.insert(axes.end(), factor_axes[f].begin(), factor_axes[f].end());
      }
      used.insert(used.end(), axes.begin(), axes.end());
      if (factors.size() > 1 && !axes.empty() && !agree(factors, axes, factor_axes)) {
        return std::nullopt;
      }
    }
    std::ranges::sort(used);
    if (std::ranges::adjacent_find(used) != used.end()) return std::nullopt;
    return spec;
  }

  bool agree(const std::vector<int>& factors, const std::vector<int>& axes,
             const FactorAxes& factor_axes) const {
    std::int64_t size = 1;
    for (const int f : factors) size *= rule_.factors[f].size;
    if (size == 0) return false;  // no step splits a dimension without elements
    const int major = factors.front();
    if (factor_axes[major] == axes && is_even(rule_.factors[major], axes)) return true;
    for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
      const auto ranges = factor_ranges(rule_, factor_axes, mesh_, rank);
      const Range by_factors = span_in_dimension(factors, rule_, ranges);
      const Range by_spec = shard_range({0, size}, axes, mesh_, mesh_.coordinates(rank));
      if (by_factors != by_spec && by_factors.size() + by_spec.size() > 0) return false;
    }
    return true;
  }

  /// Reduction factors that are split and that the output lacks leave it partial. False where two
  /// kinds of reduction would meet.
  bool add_reductions(const TensorFactors& tensor, const FactorAxes& factor_axes,
                      TensorShardSpec& spec) const {
    for (std::size_t f = 0; f < factor_axes.size(); ++f) {
      const auto reduce = reduce_of(rule_.factors[f].kind);
      if (!reduce || factor_axes[f].empty() || holds(tensor, static_cast<int>(f))) continue;
      if (!add_partial(factor_axes[f], *reduce, spec)) return false;
    }
    return true;
  }

  /// False where the spec is partial by another reduction.
  static bool add_partial(const std::vector<int>& axes, Reduce reduce, TensorShardSpec& spec) {
    if (axes.empty()) return true;
    if (spec.is_partial() && spec.reduce != reduce) return false;
    spec.reduce = reduce;
    spec.partial.insert(spec.partial.end(), axes.begin(), axes.end());
    std::ranges::sort(spec.partial);
    return true;
  }

  const ShardingRule& rule_;
  const DeviceMesh& mesh_;
};

struct Reduction {
  ReduceFunction function;
  TensorShardSpec after;
};

/// The ways to finish an output: all-reduced, or scattered onto one dimension, or as it is.
std::vector<Reduction> reductions_of(const TensorShardSpec& computed, const Shape& shape,
                                     bool reduces, bool keeps) {
  if (!computed.is_partial()) return {{ReduceFunction::none, computed}};
  TensorShardSpec reduced = computed;
  reduced.partial.clear();
  reduced.reduce = Reduce::sum;
  std::vector<Reduction> result;
  if (reduces) result.push_back({ReduceFunction::all_reduce, reduced});
  for (std::size_t d = 0; reduces && d < shape.size(); ++d) {
    if (shape[d] < 2) continue;
    Reduction scatter{ReduceFunction::reduce_scatter, reduced};
    auto& axes = scatter.after.dims[d];
    axes.insert(axes.end(), computed.partial.begin(), computed.partial.end());
    result.push_back(std::move(scatter));
  }
  if (keeps) result.push_back({ReduceFunction::none, computed});
  return result;
}

/// Appends the choice with every combination of its outputs' reductions.
void append_reductions(OpShardSpec choice, std::span<const Shape> outputs, std::size_t output,
                       const PartialUse& partial, std::vector<OpShardSpec>& choices) {
  if (output == outputs.size()) {
    choices.push_back(std::move(choice));
    return;
  }
  const bool reduces =
      partial.reduces_later || std::ranges::none_of(choice.inputs, &TensorShardSpec::is_partial);
  for (Reduction& reduction :
       reductions_of(choice.computed[output], outputs[output], reduces, partial.may_keep(output))) {
    choice.reductions[output] = reduction.function;
    choice.outputs[output] = std::move(reduction.after);
    append_reductions(choice, outputs, output + 1, partial, choices);
  }
}

/// For each mesh axis one of several targets, or none (-1).
using Assignment = std::vector<int>;
/// By mesh axis, the targets that it may have, ascending.
using AxisTargets = std::vector<std::vector<int>>;

/// Any of so many targets, or none. An axis of size 1 splits nothing and gets none.
AxisTargets all_targets(const DeviceMesh& mesh, int targets) {
  AxisTargets all(mesh.axis_sizes().size(), {-1});
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    for (int target = 0; mesh.axis_size(axis) > 1 && target < targets; ++target)
      all[axis].push_back(target);
  return all;
}

/// Symmetric axes change places so that the later ones have no lower targets.
Assignment with_lowest_first(Assignment target, const SymmetricAxes& symmetric) {
  for (std::size_t axis = 1; axis < target.size(); ++axis)
    for (std::size_t later = axis, before = axis; before-- > 0;) {
      if (symmetric[before] != symmetric[later]) continue;
      if (target[before] <= target[later]) break;
      std::swap(target[before], target[later]);
      later = before;
    }
  return target;
}

/// Calls `visit` with each way to give every mesh axis one of its targets, all first ones first,
/// the last axis changing fastest. Of symmetric axes, the later ones get no lower targets.
template <typename Visit>
void for_each_assignment(const AxisTargets& targets, Visit visit,
                         const SymmetricAxes& symmetric = {}) {
  if (std::ranges::any_of(targets, &std::vector<int>::empty)) return;
  std::vector<std::size_t> digits(targets.size(), 0);
  const auto least_digit = [&](std::size_t axis) -> std::size_t {
    for (std::size_t before = axis; !symmetric.empty() && before-- > 0;)
      if (symmetric[before] == symmetric[axis]) return digits[before];
    return 0;
  };
  Assignment target;
  while (true) {
    target.clear();
    for (std::size_t axis = 0; axis < digits.size(); ++axis)
      target.push_back(targets[axis][digits[axis]]);
    visit(target);
    std::size_t axis = digits.size();
    while (axis > 0 && ++digits[axis - 1] == targets[axis - 1].size()) --axis;
    if (axis == 0) return;
    for (; axis < digits.size(); ++axis) digits[axis] = least_digit(axis);
  }
}

std::vector<int> splittable_factors(const ShardingRule& rule) {
  std::vector<int> result;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::whole && rule.factors[f].size > 1) {
      result.push_back(static_cast<int>(f));
    }
  }
  return result;
}

/// The axes in every order; those that are not told apart ascend.
std::vector<std::vector<int>> orders_of(const std::vector<int>& axes,
                                        const SymmetricAxes& symmetric) {
  const auto kind_of = [&](int axis) { return symmetric.empty() ? axis : symmetric[axis]; };
  std::map<int, std::vector<int>> by_kind;
  std::vector<int> kinds;
  for (const int axis : axes) {
    by_kind[kind_of(axis)].push_back(axis);
    kinds.push_back(kind_of(axis));
  }
  std::ranges::sort(kinds);
  std::vector<std::vector<int>> orders;
  do {
    std::map<int, std::size_t> used;
    std::vector<int>& order = orders.emplace_back();
    for (const int kind : kinds) order.push_back(by_kind[kind][used[kind]++]);
  } while (std::ranges::next_permutation(kinds).found);
  return orders;
}

/// Calls `visit` with each way to order the axes of each factor from this one on.
template <typename Visit>
void for_each_order(FactorAxes& axes, const SymmetricAxes& symmetric, const Visit& visit,
                    std::size_t factor = 0) {
  while (factor < axes.size() && axes[factor].size() < 2) ++factor;
  if (factor == axes.size()) return visit(axes);
  const std::vector<int> before = axes[factor];
  for (std::vector<int>& order : orders_of(before, symmetric)) {
    axes[factor] = std::move(order);
    for_each_order(axes, symmetric, visit, factor + 1);
  }
  axes[factor] = before;
}

/// Appends every order of the axes within each dimension from `dim` on.
void append_orders(TensorShardSpec spec, std::size_t dim, std::vector<TensorShardSpec>& specs) {
  if (dim == spec.dims.size()) {
    specs.push_back(std::move(spec));
    return;
  }
  do {
    append_orders(spec, dim + 1, specs);
  } while (std::ranges::next_permutation(spec.dims[dim]).found);
}

}  // namespace

std::string_view name_of(ReduceFunction function) {
  return function_names.at(static_cast<std::size_t>(function));
}

ReduceFunction parse_reduce_function(std::string_view name) {
  const auto found = std::ranges::find(function_names, name);
  if (found == function_names.end())
    fail("unknown reduction '{}'; use none, all-reduce or reduce-scatter", name);
  return static_cast<ReduceFunction>(found - function_names.begin());
}

std::string to_string(const OpShardSpec& spec) {
  const auto joined = [](const std::vector<TensorShardSpec>& specs) {
    std::vector<std::string> texts;
    for (const TensorShardSpec& one : specs) texts.push_back(to_string(one));
    return fmt::format("{}", fmt::join(texts, ","));
  };
  std::string text = joined(spec.inputs) + "->" + joined(spec.outputs);
  for (const ReduceFunction function : spec.reductions) {
    if (function != ReduceFunction::none) text += fmt::format(" {}", name_of(function));
  }
  return text;
}

/// Whether an operator that reads its inputs in these specs may split the factor by the axis, or
/// none (-1) by it.
bool may_split(int factor, int axis, const ShardingRule& rule,
               std::span<const TensorShardSpec> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t d = 0; d < rule.inputs[i].size(); ++d) {
      const bool has_factor = std::ranges::count(rule.inputs[i][d], factor) > 0;
      const bool is_split = std::ranges::count(inputs[i].dims[d], axis) > 0;
      if (has_factor != is_split) return false;
    }
  return true;
}

/// On more mesh axes there are too many orders of them: op_shard_specs_like has one of each.
constexpr int most_axes_in_any_order = 3;

bool is_any(const FactorAxes&) { return true; }

/// Makes strategies of assignments, whose targets are first the factors that can be split and then
/// the groups that may be partial.
class Enumeration {
 public:
  Enumeration(const ShardingRule& rule, const DeviceMesh& mesh, std::vector<Shape> outputs,
              const PartialUse& partial = {})
      : rule_(rule),
        mesh_(mesh),
        outputs_(std::move(outputs)),
        partial_(partial),
        factors_(splittable_factors(rule)),
        maker_(rule, mesh) {}

  AxisTargets all() const {
    return all_targets(mesh_, static_cast<int>(factors_.size() + partial_.groups.size()));
  }

  /// -1 for what is no factor.
  int factor_of(int target) const {
    return target >= 0 && target < std::ssize(factors_) ? factors_[target] : -1;
  }

  /// By factor and by linear group, the axes of an assignment, ascending.
  std::pair<FactorAxes, GroupAxes> axes_of(const Assignment& target) const {
    FactorAxes factor_axes(rule_.factors.size());
    GroupAxes group_axes(rule_.linear.size());
    for (std::size_t axis = 0; axis < target.size(); ++axis) {
      if (target[axis] < 0) continue;
      const std::size_t chosen = target[axis];
      auto& axes = chosen < factors_.size()
                       ? factor_axes[factors_[chosen]]
                       : group_axes.at(partial_.groups[chosen - factors_.size()]);
      axes.push_back(static_cast<int>(axis));
    }
    return {std::move(factor_axes), std::move(group_axes)};
  }

  void append(const FactorAxes& factor_axes, const GroupAxes& group_axes,
              std::vector<OpShardSpec>& choices) const {
    if (auto choice = maker_.make(factor_axes, group_axes))
      append_reductions(std::move(*choice), outputs_, 0, partial_, choices);
  }

  void append(const Assignment& target, std::vector<OpShardSpec>& choices) const {
    const auto [factor_axes, group_axes] = axes_of(target);
    append(factor_axes, group_axes, choices);
  }

  /// Appends the assignment with ascending axes or, where the rule forbids that, in each order that
  /// it allows.
  void append_allowed(const Assignment& target, std::vector<OpShardSpec>& choices) const {
    const std::size_t before = choices.size();
    append(target, choices);
    if (choices.size() > before) return;
    append_orders(target, {}, is_any, choices);
  }

  /// Appends those of the assignment in each order of a factor's axes that `is_wanted`.
  template <typename IsWanted>
  void append_orders(const Assignment& target, const SymmetricAxes& symmetric, IsWanted is_wanted,
                     std::vector<OpShardSpec>& choices) const {
    auto axes = axes_of(target);
    const GroupAxes& group_axes = axes.second;
    for_each_order(axes.first, symmetric, [&](const FactorAxes& order) {
      if (is_wanted(order)) append(order, group_axes, choices);
    });
  }

  /// With symmetric axes, whose specs are the same in any order, one order that the rule allows.
  std::vector<OpShardSpec> of(const AxisTargets& targets,
                              const SymmetricAxes& symmetric = {}) const {
    std::vector<OpShardSpec> choices;
    const auto append_all = [&](const Assignment& target) {
      const std::size_t before = choices.size();
      const auto is_wanted = [&](const FactorAxes&) {
        return symmetric.empty() || choices.size() == before;
      };
      append_orders(target, symmetric, is_wanted, choices);
    };
    for_each_assignment(targets, append_all, symmetric);
    return choices;
  }

 private:
  const ShardingRule& rule_;
  const DeviceMesh& mesh_;
  const std::vector<Shape> outputs_;
  const PartialUse& partial_;
  const std::vector<int> factors_;
  const ChoiceMaker maker_;
};

/// Targets that agree with how the plan splits factors by the axis.
std::vector<int> targets_as_in(const OpShardSpec& plan, int axis, const std::vector<int>& targets,
                               const Enumeration& enumeration) {
  int split = -1;
  for (std::size_t f = 0; f < plan.factor_axes.size(); ++f)
    if (std::ranges::count(plan.factor_axes[f], axis) > 0) split = static_cast<int>(f);
  std::vector<int> same;
  for (const int target : targets)
    if (enumeration.factor_of(target) == split) same.push_back(target);
  return same;
}

/// The axes of each factor, those that split it in the plan as there, and the others behind them.
FactorAxes with_moved_last(FactorAxes axes, const FactorAxes& plan) {
  for (std::size_t f = 0; f < axes.size(); ++f) {
    const auto place = [&](int axis) { return std::ranges::find(plan[f], axis) - plan[f].begin(); };
    std::ranges::sort(axes[f], {}, [&](int axis) { return std::pair(place(axis), axis); });
  }
  return axes;
}

/// The axes of each factor without this one.
FactorAxes without(int axis, FactorAxes axes) {
  for (std::vector<int>& of_factor : axes) std::erase(of_factor, axis);
  return axes;
}

std::vector<OpShardSpec> enumerate_op_shard_specs(const ShardingRule& rule, const DeviceMesh& mesh,
                                                  std::span<const Shape> inputs,
                                                  std::span<const Shape> outputs,
                                                  const PartialUse& partial,
                                                  const SymmetricAxes& symmetric) {
  require(rule.inputs.size() == inputs.size() && rule.outputs.size() == outputs.size(),
          "a rule names every tensor of its operator");
  const Enumeration enumeration(rule, mesh, {outputs.begin(), outputs.end()}, partial);
  return enumeration.of(enumeration.all(), symmetric);
}

std::vector<OpShardSpec> op_shard_specs_reading(const graph::Graph& graph, const graph::Node& node,
                                                const ShardingRule& rule, const DeviceMesh& mesh,
                                                std::span<const TensorShardSpec> inputs) {
  const PartialUse none;
  const Enumeration enumeration(rule, mesh, output_shapes(graph, node), none);
  AxisTargets targets = enumeration.all();
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    std::erase_if(targets[axis], [&](int target) {
      return !may_split(enumeration.factor_of(target), axis, rule, inputs);
    });
  std::vector<OpShardSpec> choices = enumeration.of(targets);
  std::erase_if(choices, [&](const OpShardSpec& choice) {
    return !std::ranges::equal(choice.inputs, inputs);
  });
  return choices;
}

std::vector<OpShardSpec> op_shard_specs_near(const graph::Graph& graph, const graph::Node& node,
                                             const ShardingRule& rule, const DeviceMesh& mesh,
                                             const PartialUse& partial, const OpShardSpec& plan,
                                             std::span<const int> free) {
  const Enumeration enumeration(rule, mesh, output_shapes(graph, node), partial);
  AxisTargets targets = enumeration.all();
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (std::ranges::find(free, axis) == free.end())
      targets[axis] = targets_as_in(plan, axis, targets[axis], enumeration);
  const auto is_near = [&](const FactorAxes& axes) {
    return free.size() == 1 ? without(free[0], axes) == without(free[0], plan.factor_axes)
                            : axes == with_moved_last(axes, plan.factor_axes);
  };
  std::vector<OpShardSpec> choices;
  for_each_assignment(targets, [&](const Assignment& target) {
    enumeration.append_orders(target, {}, is_near, choices);
  });
  keep_near(choices, plan, mesh.num_axes(), free);
  return choices;
}

OpShardSpec canonical(OpShardSpec strategy, const SymmetricAxes& symmetric) {
  for (auto* tensors : {&strategy.inputs, &strategy.computed, &strategy.outputs})
    for (TensorShardSpec& tensor : *tensors) tensor = canonical(tensor, symmetric);
  return strategy;
}

std::vector<OpShardSpec> op_shard_specs_like(const graph::Graph& graph, const graph::Node& node,
                                             const ShardingRule& rule, const DeviceMesh& mesh,
                                             const PartialUse& partial, const OpShardSpec& form,
                                             const SymmetricAxes& symmetric) {
  const Enumeration enumeration(rule, mesh, output_shapes(graph, node), partial);
  const auto is_alike = [&](const OpShardSpec& choice) {
    const OpShardSpec own = canonical(choice, symmetric);
    return own.inputs == form.inputs && own.outputs == form.outputs;
  };
  std::set<Assignment> alike;  // those with_lowest_first
  for_each_assignment(
      enumeration.all(),
      [&](const Assignment& target) {
        std::vector<OpShardSpec> choices;
        enumeration.append_allowed(target, choices);
        if (std::ranges::any_of(choices, is_alike)) alike.insert(target);
      },
      symmetric);
  std::vector<OpShardSpec> choices;
  for_each_assignment(enumeration.all(), [&](const Assignment& target) {
    if (!alike.contains(with_lowest_first(target, symmetric))) return;
    if (mesh.num_axes() <= most_axes_in_any_order)
      enumeration.append_orders(target, {}, is_any, choices);
    else
      enumeration.append_allowed(target, choices);
  });
  std::erase_if(choices, [&](const OpShardSpec& choice) { return !is_alike(choice); });
  return choices;
}

std::vector<TensorShardSpec> enumerate_tensor_shard_specs(const Shape& shape,
                                                          const DeviceMesh& mesh,
                                                          const SymmetricAxes& symmetric) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) dims.push_back(d);
  }
  std::vector<TensorShardSpec> specs;
  const AxisTargets targets = all_targets(mesh, static_cast<int>(dims.size()));
  const auto append = [&](const Assignment& target) {
    TensorShardSpec spec = TensorShardSpec::replicated(shape.size());
    for (std::size_t axis = 0; axis < target.size(); ++axis) {
      if (target[axis] < 0) continue;
      spec.dims[dims[target[axis]]].push_back(static_cast<int>(axis));
    }
    if (symmetric.empty())
      append_orders(std::move(spec), 0, specs);
    else
      specs.push_back(canonical(spec, symmetric));
  };
  for_each_assignment(targets, append, symmetric);
  return specs;
}

std::vector<OpShardSpec> enumerate_op_shard_specs(const graph::Graph& graph,
                                                  const graph::Node& node, const ShardingRule& rule,
                                                  const DeviceMesh& mesh, const PartialUse& partial,
                                                  const SymmetricAxes& symmetric) {
  return enumerate_op_shard_specs(rule, mesh, input_shapes(graph, node), output_shapes(graph, node),
                                  partial, symmetric);
}

std::vector<Range> factor_ranges(const ShardingRule& rule, const FactorAxes& factor_axes,
                                 const DeviceMesh& mesh, int rank) {
  require(factor_axes.size() == rule.factors.size(), "a choice has axes for every factor");
  const std::vector<int> coordinates = mesh.coordinates(rank);
  std::vector<Range> ranges;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    ranges.push_back(shard_range({0, rule.factors[f].size}, factor_axes[f], mesh, coordinates));
  }
  return ranges;
}

bool splits_normalized(const ShardingRule& rule, const FactorAxes& factor_axes) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind == FactorKind::normalized && !factor_axes[f].empty()) return true;
  }
  return false;
}

}  // namespace autopar::sharding
