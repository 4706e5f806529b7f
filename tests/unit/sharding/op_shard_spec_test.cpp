#include "sharding/op_shard_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "unit/program/random_graph.h"
#include "unit/sharding/simulated_devices.h"

using namespace autopar::sharding;
using simulated::Array;

namespace {

/// An operator that is its rule: every output element is the reduction, over the loops that the
/// output lacks, of the product of its inputs' elements.
struct Loops {
  std::string text;
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;
  std::vector<FactorOptions> options;

  /// A product is linear in each input, unless the extremum of some loop is taken.
  ShardingRule rule() const {
    ShardingRule made = make_rule(text, inputs, outputs, options);
    const bool has_extremum = std::ranges::any_of(options, [](const FactorOptions& option) {
      return option.kind == FactorKind::max || option.kind == FactorKind::min;
    });
    for (int t = 0; !has_extremum && t < static_cast<int>(inputs.size()); ++t) {
      made.linear.push_back({t});
    }
    return made;
  }
};

/// The choices with every partial value that the rule has.
std::vector<OpShardSpec> all_choices(const ShardingRule& rule, const Loops& loops,
                                     const DeviceMesh& mesh) {
  PartialUse partial;
  for (std::size_t group = 0; group < rule.linear.size(); ++group) partial.groups.push_back(group);
  partial.kept.assign(loops.outputs.size(), true);
  return enumerate_op_shard_specs(rule, mesh, loops.inputs, loops.outputs, partial);
}

/// The place of the loops at `at` in a tensor with these factors.
Shape index_of(const std::vector<std::vector<int>>& tensor, const Shape& sizes, const Shape& at) {
  Shape index;
  for (const auto& factors : tensor) {
    std::int64_t i = 0;
    for (const int f : factors) {
      i = i * sizes[static_cast<std::size_t>(f)] + at[static_cast<std::size_t>(f)];
    }
    index.push_back(i);
  }
  return index;
}

double identity_of(FactorKind kind) {
  if (kind == FactorKind::max) return -1e300;
  if (kind == FactorKind::min) return 1e300;
  return 0;
}

/// Runs the loops with the given extent each; a mean divides by the extent.
Array run_loops(const ShardingRule& rule, const Shape& sizes, const std::vector<Array>& inputs,
                std::size_t output, const Shape& output_shape) {
  FactorKind kind = FactorKind::sum;
  std::int64_t count = 1;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind == FactorKind::spatial || rule.factors[f].kind == FactorKind::whole) {
      continue;
    }
    kind = rule.factors[f].kind;
    if (kind == FactorKind::mean) count *= sizes[f];
  }
  Array result = simulated::filled(output_shape, [&] { return identity_of(kind); });
  simulated::for_each_index(sizes, [&](const Shape& at) {
    double product = 1;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      product *= simulated::at(inputs[t], index_of(rule.inputs[t], sizes, at));
    }
    double& value =
        result.data.at(simulated::offset(output_shape, index_of(rule.outputs[output], sizes, at)));
    if (kind == FactorKind::max) {
      value = std::max(value, product);
    } else if (kind == FactorKind::min) {
      value = std::min(value, product);
    } else {
      value += product;
    }
  });
  if (kind == FactorKind::mean) {
    for (double& value : result.data) value /= static_cast<double>(count);
  }
  return result;
}

Shape sizes_of(const std::vector<Range>& ranges) {
  Shape sizes;
  for (const Range& range : ranges) sizes.push_back(range.size());
  return sizes;
}

ReshardStep reduction_of(const OpShardSpec& choice, std::size_t output) {
  ReshardStep step{.kind = StepKind::all_reduce,
                   .mesh_axes = choice.computed[output].partial,
                   .reduce = choice.computed[output].reduce,
                   .before = choice.computed[output],
                   .after = choice.outputs[output]};
  if (choice.reductions[output] == ReduceFunction::reduce_scatter) {
    step.kind = StepKind::reduce_scatter;
    for (std::size_t d = 0; d < step.before.dims.size(); ++d) {
      if (step.before.dims[d] != step.after.dims[d]) step.dim = static_cast<int>(d);
    }
  }
  return step;
}

/// Splits the inputs as the choice says, runs every rank's loops, reduces, and compares with the
/// shards of the whole run.
bool computes_the_whole(const ShardingRule& rule, const Loops& loops, const OpShardSpec& choice,
                        const DeviceMesh& mesh, std::mt19937& random) {
  std::vector<Array> inputs;
  std::vector<simulated::Devices> locals;
  for (std::size_t t = 0; t < loops.inputs.size(); ++t) {
    auto [whole, local] = simulated::distribute(loops.inputs[t], choice.inputs[t], mesh, random);
    inputs.push_back(std::move(whole));
    locals.push_back(std::move(local));
  }
  Shape sizes;
  for (const Factor& factor : rule.factors) sizes.push_back(factor.size);
  for (std::size_t output = 0; output < loops.outputs.size(); ++output) {
    const Array whole = run_loops(rule, sizes, inputs, output, loops.outputs[output]);
    simulated::Devices devices;
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      std::vector<Array> local;
      for (const simulated::Devices& input : locals) {
        local.push_back(input[static_cast<std::size_t>(rank)]);
      }
      devices.push_back(run_loops(
          rule, sizes_of(factor_ranges(rule, choice.factor_axes, mesh, rank)), local, output,
          local_shape(choice.computed[output], loops.outputs[output], mesh, rank)));
    }
    if (!simulated::holds(devices, whole, choice.computed[output], mesh)) return false;
    if (choice.reductions[output] != ReduceFunction::none) {
      devices = simulated::after_step(reduction_of(choice, output), devices, mesh);
    }
    if (!simulated::holds(devices, whole, choice.outputs[output], mesh)) return false;
  }
  return true;
}

std::vector<std::string> choices(const Loops& loops, const DeviceMesh& mesh) {
  std::vector<std::string> result;
  for (const auto& choice :
       enumerate_op_shard_specs(loops.rule(), mesh, loops.inputs, loops.outputs)) {
    result.push_back(to_string(choice));
  }
  return result;
}

const Loops matmul{"mk,kn->mn", {{4, 6}, {6, 8}}, {{4, 8}}, {{'k', FactorKind::sum}}};

}  // namespace

TEST_CASE("a product on one mesh axis splits its rows, its columns or its sum") {
  CHECK(choices(matmul, DeviceMesh({2})) ==
        std::vector<std::string>{"RR,RR->RR", "S0R,RR->S0R", "RS0,S0R->RR all-reduce",
                                 "RS0,S0R->S0R reduce-scatter", "RS0,S0R->RS0 reduce-scatter",
                                 "RR,RS0->RS0"});
}

TEST_CASE("a mesh axis of one device splits nothing") {
  CHECK(choices(matmul, DeviceMesh({1})) == std::vector<std::string>{"RR,RR->RR"});
  CHECK(choices(matmul, DeviceMesh({1, 2})).size() == choices(matmul, DeviceMesh({2})).size());
}

TEST_CASE("two mesh axes split two factors or the same one") {
  const auto found = choices(matmul, DeviceMesh({2, 2}));
  const auto has = [&](const char* text) { return std::ranges::find(found, text) != found.end(); };
  CHECK(has("S0S1,S1R->S0R all-reduce"));
  CHECK(has("S0S1,S1R->S01R reduce-scatter"));
  CHECK(has("S01R,RR->S01R"));
  CHECK(has("RS01,S01R->RR all-reduce"));
  CHECK(has("RS01,S01R->S01R reduce-scatter"));
  CHECK(has("S10R,RR->S10R"));
  CHECK(std::set<std::string>(found.begin(), found.end()).size() == found.size());
}

TEST_CASE("whole, even and never empty factors are split only as they allow") {
  const DeviceMesh mesh({4});
  CHECK(choices({"ab->ab", {{8, 8}}, {{8, 8}}, {{'b', FactorKind::whole}}}, mesh) ==
        std::vector<std::string>{"RR->RR", "S0R->S0R"});
  CHECK(choices({"a->", {{6}}, {{}}, {{'a', FactorKind::mean}}}, mesh) ==
        std::vector<std::string>{"R->."});
  CHECK(choices({"a->", {{8}}, {{}}, {{'a', FactorKind::mean}}}, mesh) ==
        std::vector<std::string>{"R->.", "S0->. all-reduce"});
  // 5 over 4 is 2, 2, 1 and nothing.
  const FactorOptions never_empty{.letter = 'a', .never_empty = true};
  CHECK(choices({"a->a", {{5}}, {{5}}, {never_empty}}, mesh) == std::vector<std::string>{"R->R"});
  CHECK(choices({"a->a", {{7}}, {{7}}, {never_empty}}, mesh) ==
        std::vector<std::string>{"R->R", "S0->S0"});
  CHECK(choices({"a->a", {{5}}, {{5}}, {}}, mesh) == std::vector<std::string>{"R->R", "S0->S0"});
}

TEST_CASE("a dimension of several factors is split evenly, from its major factor on") {
  const auto reshape = [](std::int64_t h, std::int64_t d) {
    return Loops{"(hd)->hd", {{h * d}}, {{h, d}}, {}};
  };
  CHECK(choices(reshape(12, 64), DeviceMesh({4})) == std::vector<std::string>{"R->RR", "S0->S0R"});
  CHECK(choices(reshape(6, 64), DeviceMesh({4})) == std::vector<std::string>{"R->RR"});
  CHECK(choices(reshape(12, 64), DeviceMesh({5})) == std::vector<std::string>{"R->RR"});
  CHECK(choices(reshape(1, 64), DeviceMesh({4})) == std::vector<std::string>{"R->RR", "S0->RS0"});
  // The minor factor only where the major one is fully split.
  CHECK(choices(reshape(2, 6), DeviceMesh({2, 3})) ==
        std::vector<std::string>{"R->RR", "S0->S0R", "S01->S0S1"});
}

TEST_CASE("a dimension without elements is not split, though one of its factors could be") {
  const Loops loops{
      "n(gc),(gm)c->n(gm)", {{2, 4}, {0, 1}}, {{2, 0}}, {{.letter = 'c', .kind = FactorKind::sum}}};
  const DeviceMesh mesh({2});
  const auto choices = all_choices(loops.rule(), loops, mesh);
  CHECK(choices.size() > 1);
  for (const OpShardSpec& choice : choices) {
    CHECK(choice.inputs[1].dims[0].empty());
    CHECK(choice.outputs[0].dims[1].empty());
  }
}

TEST_CASE("two kinds of reduction are never left partial together") {
  const Loops both{"ab->", {{4, 4}}, {{}}, {{'a', FactorKind::sum}, {'b', FactorKind::max}}};
  for (const std::string& choice : choices(both, DeviceMesh({2, 2}))) {
    CHECK(choice.find("S0S1") == std::string::npos);
    CHECK(choice.find("S1S0") == std::string::npos);
  }
}

TEST_CASE("a factor in two dimensions of a tensor is not split") {
  CHECK(choices({"aa->a", {{4, 4}}, {{4}}, {}}, DeviceMesh({2})) ==
        std::vector<std::string>{"RR->R"});
}

TEST_CASE("an output that has a reduced factor is not partial over it") {
  CHECK(choices({"ab->ab,a", {{4, 4}}, {{4, 4}, {4}}, {{'b', FactorKind::sum}}}, DeviceMesh({2})) ==
        std::vector<std::string>{"RR->RR,R", "S0R->S0R,S0", "RS0->RS0,R all-reduce",
                                 "RS0->RS0,S0 reduce-scatter"});
}

TEST_CASE("a reduction is scattered onto no dimension of size 1") {
  CHECK(choices({"ak,kb->ab", {{1, 4}, {4, 6}}, {{1, 6}}, {{'k', FactorKind::sum}}},
                DeviceMesh({2})) == std::vector<std::string>{"RR,RR->RR", "RS0,S0R->RR all-reduce",
                                                             "RS0,S0R->RS0 reduce-scatter",
                                                             "RR,RS0->RS0"});
}

TEST_CASE("every choice computes the shards of the whole, uneven and empty shares included") {
  std::size_t tried = 0;
  std::mt19937 random(3);
  const std::vector<Loops> operators{
      matmul,
      {"mk,kn->mn", {{5, 3}, {3, 7}}, {{5, 7}}, {{'k', FactorKind::sum}}},
      {"bmk,kn->bmn", {{2, 3, 5}, {5, 4}}, {{2, 3, 4}}, {{'k', FactorKind::sum}}},
      {"ab,b,1b->ab", {{5, 3}, {3}, {1, 3}}, {{5, 3}}, {}},
      {"ab,ab->ab", {{5, 1}, {1, 3}}, {{5, 3}}, {}},
      {"ab->a", {{5, 7}}, {{5}}, {{'b', FactorKind::max}}},
      {"ab->a1", {{5, 7}}, {{5, 1}}, {{'b', FactorKind::min}}},
      {"ab->", {{4, 6}}, {{}}, {{'a', FactorKind::sum}, {'b', FactorKind::sum}}},
      {"ab->b", {{12, 5}}, {{5}}, {{'a', FactorKind::mean}}},
      {"b(hd)->bhd", {{3, 24}}, {{3, 4, 6}}, {}},
      {"b(hd)->bdh", {{3, 24}}, {{3, 6, 4}}, {}},
      {"(ab)c->a(bc)", {{6, 4}}, {{2, 12}}, {}},
      {"b(gr)k,bgk->b(gr)", {{2, 4, 3}, {2, 2, 3}}, {{2, 4}}, {{'k', FactorKind::sum}}},
      {"ab->ba,a", {{3, 5}}, {{5, 3}, {3}}, {{'b', FactorKind::sum}}},
      {"ij,k->k", {{3, 4}, {5}}, {{5}}, {{'i', FactorKind::sum}, {'j', FactorKind::sum}}}};
  for (const DeviceMesh& mesh : {DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({4}), DeviceMesh({7}),
                                 DeviceMesh({2, 2}), DeviceMesh({2, 3}), DeviceMesh({3, 1, 2})}) {
    for (const Loops& loops : operators) {
      const ShardingRule rule = loops.rule();
      const auto all = all_choices(rule, loops, mesh);
      for (const TensorShardSpec& input : all.front().inputs)
        CHECK(input == TensorShardSpec::replicated(input.dims.size()));
      tried += all.size();
      for (const OpShardSpec& choice : all) {
        CAPTURE(loops.text, to_string(mesh), to_string(choice));
        REQUIRE(computes_the_whole(rule, loops, choice, mesh, random));
      }
    }
  }
  CHECK(tried > 2500);
}

TEST_CASE("a product that is said to be linear in both factors together is found out") {
  std::mt19937 random(3);
  const DeviceMesh mesh({2});
  ShardingRule rule = matmul.rule();
  rule.linear = {{0, 1}};
  int wrong = 0;
  for (const OpShardSpec& choice : all_choices(rule, matmul, mesh)) {
    const bool is_wrong = !computes_the_whole(rule, matmul, choice, mesh, random);
    CHECK(is_wrong == choice.inputs[0].is_partial());
    wrong += is_wrong;
  }
  CHECK(wrong == 4);  // all-reduced, scattered onto rows or columns, kept
}

TEST_CASE("partial inputs and outputs are enumerated only as they are asked for") {
  const ShardingRule rule = matmul.rule();
  const DeviceMesh mesh({2});
  const auto found = [&](const PartialUse& partial) {
    std::vector<std::string> result;
    for (const OpShardSpec& choice :
         enumerate_op_shard_specs(rule, mesh, matmul.inputs, matmul.outputs, partial)) {
      if (to_string(choice).find("+P") != std::string::npos) result.push_back(to_string(choice));
    }
    return result;
  };
  using Texts = std::vector<std::string>;
  CHECK(found({}).empty());
  CHECK(found({.groups = {}, .kept = {true}}) == Texts{"RS0,S0R->RR+P0"});
  CHECK(found({.groups = {1}, .kept = {}}) == Texts{"RR,RR+P0->RR all-reduce",
                                                    "RR,RR+P0->S0R reduce-scatter",
                                                    "RR,RR+P0->RS0 reduce-scatter"});
  CHECK(found({.groups = {0}, .kept = {true}, .reduces_later = false}) ==
        Texts{"RS0,S0R->RR+P0", "RR+P0,RR->RR+P0"});
  CHECK(found({.groups = {0}, .kept = {false}, .reduces_later = false}).empty());
}

TEST_CASE("sums are not kept beside another reduction") {
  const Loops mean{"ab->b", {{4, 4}}, {{4}}, {{'a', FactorKind::mean}}};
  for (const OpShardSpec& choice : all_choices(mean.rule(), mean, DeviceMesh({2, 2}))) {
    CHECK_FALSE((choice.inputs[0].is_partial() && !choice.inputs[0].dims[0].empty()));
  }
}

TEST_CASE("reduce functions' names and values are inverse") {
  for (const ReduceFunction function :
       {ReduceFunction::none, ReduceFunction::all_reduce, ReduceFunction::reduce_scatter}) {
    CHECK(parse_reduce_function(name_of(function)) == function);
  }
  CHECK_THROWS_AS(parse_reduce_function("gather"), autopar::Error);
}

namespace {

/// All nodes of random graphs that have a rule, with what they may keep partial.
template <typename Check>
void for_random_operators(int graphs, Check check) {
  autopar::Random random(21);
  for (int round = 0; round < graphs; ++round) {
    const autopar::graph::Graph graph = autopar::RandomGraph(random).grow(4);
    for (const autopar::graph::Node& node : graph.nodes) {
      const auto rule = sharding_rule(graph, node);
      if (!rule) continue;
      PartialUse partial;
      for (std::size_t group = 0; group < rule->linear.size(); ++group)
        partial.groups.push_back(group);
      partial.kept.assign(node.outputs.size(), true);
      check(graph, node, *rule, partial, random);
    }
  }
}

bool splits(const std::vector<int>& axes, int axis) { return std::ranges::count(axes, axis) > 0; }

bool is_used_alike(const TensorShardSpec& a, const TensorShardSpec& b, int axis) {
  for (std::size_t d = 0; d < a.dims.size(); ++d)
    if (splits(a.dims[d], axis) != splits(b.dims[d], axis)) return false;
  return splits(a.partial, axis) == splits(b.partial, axis);
}

bool is_used_alike(const OpShardSpec& a, const OpShardSpec& b, int axis) {
  for (std::size_t f = 0; f < a.factor_axes.size(); ++f)
    if (splits(a.factor_axes[f], axis) != splits(b.factor_axes[f], axis)) return false;
  for (const auto tensors : {&OpShardSpec::inputs, &OpShardSpec::computed, &OpShardSpec::outputs})
    for (std::size_t t = 0; t < (a.*tensors).size(); ++t)
      if (!is_used_alike((a.*tensors)[t], (b.*tensors)[t], axis)) return false;
  return true;
}

FactorAxes without(FactorAxes axes, int taken_out) {
  for (std::vector<int>& each : axes) std::erase(each, taken_out);
  return axes;
}

/// Axes that split a factor as in the plan are in its order; a free one may stand anywhere, several
/// stand behind.
bool is_in_order_of(const FactorAxes& plan, const FactorAxes& axes, const std::vector<int>& free,
                    int num_axes) {
  if (free.size() == 1) return without(plan, free[0]) == without(axes, free[0]);
  for (std::size_t f = 0; f < axes.size(); ++f) {
    std::vector<int> expected;
    for (const int axis : plan[f])
      if (splits(axes[f], axis)) expected.push_back(axis);
    for (int axis = 0; axis < num_axes; ++axis)
      if (splits(axes[f], axis) && !splits(plan[f], axis)) expected.push_back(axis);
    if (axes[f] != expected) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("strategies that read inputs as they lie are all that do, in their order") {
  int asked = 0;
  for_random_operators(15, [&](const auto& graph, const auto& node, const ShardingRule& rule,
                               const PartialUse&, auto&) {
    for (const DeviceMesh& mesh : {DeviceMesh({2, 3}), DeviceMesh({2, 1, 2})}) {
      const std::vector<OpShardSpec> all = enumerate_op_shard_specs(graph, node, rule, mesh);
      for (const OpShardSpec& read : all) {
        std::vector<OpShardSpec> expected;
        for (const OpShardSpec& each : all)
          if (each.inputs == read.inputs) expected.push_back(each);
        CHECK(op_shard_specs_reading(graph, node, rule, mesh, read.inputs) == expected);
        ++asked;
      }
    }
  });
  CHECK(asked > 300);
}

TEST_CASE("axes that split one factor come in every order that the rule allows, once") {
  int more = 0;
  for_random_operators(15, [&](const auto& graph, const auto& node, const ShardingRule& rule,
                               const PartialUse& partial, auto&) {
    const DeviceMesh mesh({2, 3, 2});
    std::set<std::string> known;
    std::map<FactorAxes, std::set<FactorAxes>> orders;  // by the same with axes that ascend
    const auto all = enumerate_op_shard_specs(graph, node, rule, mesh, partial);
    for (const OpShardSpec& each : all) {
      known.insert(
          fmt::format("{} {} {}", each.factor_axes, to_string(each), each.computed.size()));
      FactorAxes ascending = each.factor_axes;
      for (std::vector<int>& axes : ascending) std::ranges::sort(axes);
      orders[ascending].insert(each.factor_axes);
    }
    CHECK(known.size() == all.size());
    const bool has_one_factor_a_dimension = std::ranges::all_of(rule.inputs, [](const auto& dims) {
      return std::ranges::all_of(dims, [](const auto& factors) { return factors.size() < 2; });
    });
    for (const auto& [ascending, ordered] : orders) {
      std::size_t most = 1;
      for (const std::vector<int>& axes : ascending)
        most *= axes.size() == 3 ? 6 : std::max<std::size_t>(axes.size(), 1);
      CHECK(ordered.size() <= most);
      more += has_one_factor_a_dimension && ordered.size() == most && most > 1;
    }
  });
  CHECK(more > 50);
}

TEST_CASE("strategies near that of a plan are all that use free axes otherwise, in their order") {
  const std::vector<std::vector<int>> frees = {{}, {0}, {2}, {0, 1}, {0, 2}, {0, 1, 2}};
  int fewer = 0;
  for_random_operators(15, [&](const auto& graph, const auto& node, const ShardingRule& rule,
                               const PartialUse& partial, auto& random) {
    const DeviceMesh mesh({2, 2, 2});
    const std::vector<OpShardSpec> all = enumerate_op_shard_specs(graph, node, rule, mesh, partial);
    for (const std::vector<int>& free : frees) {
      const OpShardSpec& plan = autopar::any_of(random, all);
      std::vector<OpShardSpec> expected;
      for (const OpShardSpec& each : all) {
        bool is_near = is_in_order_of(plan.factor_axes, each.factor_axes, free, 3);
        for (int axis = 0; axis < 3; ++axis)
          is_near &= std::ranges::count(free, axis) > 0 || is_used_alike(each, plan, axis);
        if (is_near) expected.push_back(each);
      }
      CAPTURE(node.op_type, free, to_string(plan));
      CHECK(op_shard_specs_near(graph, node, rule, mesh, partial, plan, free) == expected);
      fewer += expected.size() < all.size();
    }
  });
  CHECK(fewer > 50);
}
