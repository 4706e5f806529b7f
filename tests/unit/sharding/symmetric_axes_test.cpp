#include "sharding/symmetric_axes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "sharding/connect.h"
#include "sharding/connection_seconds.h"
#include "sharding/op_shard_spec.h"
#include "unit/program/random_graph.h"

using namespace autopar::sharding;
using autopar::graph::DataType;

namespace {

struct Case {
  DeviceMesh mesh;
  SymmetricAxes symmetric;
};
const std::vector<Case> cases{{DeviceMesh({2, 2, 2}), {0, 0, 0}},
                              {DeviceMesh({2, 3, 2}), {0, 1, 0}},
                              {DeviceMesh({2, 2, 3, 3}), {0, 0, 2, 2}}};

/// Every way in which symmetric axes can change places: by axis, the one in its place.
std::vector<std::vector<int>> exchanges(const SymmetricAxes& symmetric) {
  std::vector<int> places(symmetric.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<std::vector<int>> all;
  do {
    bool keeps_groups = true;
    for (std::size_t axis = 0; axis < places.size(); ++axis)
      keeps_groups = keeps_groups && symmetric[axis] == symmetric[places[axis]];
    if (keeps_groups) all.push_back(places);
  } while (std::ranges::next_permutation(places).found);
  return all;
}

/// With the axes of a dimension in ascending order.
TensorShardSpec exchanged(TensorShardSpec spec, const std::vector<int>& places) {
  for (auto& axes : spec.dims) {
    for (int& axis : axes) axis = places[axis];
    std::ranges::sort(axes);
  }
  for (int& axis : spec.partial) axis = places[axis];
  std::ranges::sort(spec.partial);
  return spec;
}

/// Every spec of the shape, with all orders, partial over the axes that are not used or not.
std::vector<TensorShardSpec> all_specs(const Shape& shape, const DeviceMesh& mesh) {
  std::vector<TensorShardSpec> all;
  for (const TensorShardSpec& spec : enumerate_tensor_shard_specs(shape, mesh)) {
    all.push_back(spec);
    TensorShardSpec partial = spec;
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      if (!spec.uses(axis)) partial.partial.push_back(axis);
    if (partial.is_partial()) all.push_back(partial);
  }
  return all;
}

}  // namespace

TEST_CASE("specs have one canonical form where exchanges of symmetric axes lead to each other") {
  for (const auto& [mesh, symmetric] : cases) {
    const auto specs = all_specs({8, 8}, mesh);
    const auto all = exchanges(symmetric);
    for (const TensorShardSpec& a : specs) {
      std::set<TensorShardSpec> of_a;
      for (const auto& places : all) of_a.insert(exchanged(a, places));
      CHECK(of_a.contains(canonical(a, symmetric)));
      for (const TensorShardSpec& b : specs) {
        const bool are_alike = of_a.contains(exchanged(b, all.front()));
        CHECK((canonical(a, symmetric) == canonical(b, symmetric)) == are_alike);
      }
    }
  }
}

TEST_CASE("between canonical specs the way is the cheapest between any that they stand for") {
  for (const Case& axes : cases) {
    const auto& mesh = axes.mesh;
    const auto& symmetric = axes.symmetric;
    if (mesh.num_axes() > 3) continue;  // too many pairs for brute force
    const Shape shape{16, 24};
    // Symmetric, but otherwise hardly alike.
    const StepPrice price = [&](const ReshardStep& step, const Shape& of, DataType type) {
      double seconds = 1 + static_cast<double>(step.kind) * 0.25 + step.dim * 0.125;
      for (const int axis : step.mesh_axes) seconds += mesh.axis_size(axis) * 0.5;
      return seconds + static_cast<double>(payload_bytes(step, of, type, mesh, 0)) / 512;
    };
    const auto specs = all_specs(shape, mesh);
    ConnectionSeconds exact(shape, DataType::float32, mesh, price);
    ConnectionSeconds relaxed(shape, DataType::float32, mesh, price,
                              {.exchangeable = nullptr, .relaxed = symmetric});
    std::map<std::pair<TensorShardSpec, TensorShardSpec>, double> least;
    for (const TensorShardSpec& from : specs)
      for (const TensorShardSpec& to : specs) {
        double& seconds = least
                              .try_emplace({canonical(from, symmetric), canonical(to, symmetric)},
                                           std::numeric_limits<double>::infinity())
                              .first->second;
        if (can_connect(from, to)) seconds = std::min(seconds, exact.of(from, to));
      }
    int tighter = 0;
    for (const auto& [pair, seconds] : least) {
      const auto& [from, to] = pair;
      CAPTURE(to_string(mesh), to_string(from), to_string(to));
      REQUIRE((relaxed.of(from, to) < 1e9) == (seconds < 1e9));
      if (seconds < 1e9) CHECK(relaxed.of(from, to) <= seconds * (1 + 1e-12));
      tighter += seconds < 1e9 && relaxed.of(from, to) > 0.9 * seconds;
    }
    CHECK(tighter > static_cast<int>(least.size()) / 3);
  }
}

TEST_CASE("strategies of symmetric axes stand for all strategies, each of which is found again") {
  autopar::Random random(8);
  std::size_t fewer = 0;
  for (int round = 0; round < 6; ++round) {
    const autopar::graph::Graph graph = autopar::RandomGraph(random).grow(3);
    for (const auto& node : graph.nodes) {
      const auto rule = sharding_rule(graph, node);
      if (!rule) continue;
      for (const Case& axes : cases) {
        const auto& mesh = axes.mesh;
        const auto& symmetric = axes.symmetric;
        const auto all = enumerate_op_shard_specs(graph, node, *rule, mesh);
        const auto few = enumerate_op_shard_specs(graph, node, *rule, mesh, {}, symmetric);
        using Form = std::pair<std::vector<TensorShardSpec>, std::vector<TensorShardSpec>>;
        const auto form_of = [&](const OpShardSpec& strategy) {
          const OpShardSpec form = canonical(strategy, symmetric);
          return Form{form.inputs, form.outputs};
        };
        std::map<Form, std::vector<OpShardSpec>> by_form;
        // On four axes, other orders count where the rule forbids the ascending one.
        const auto counts = [&](const OpShardSpec& strategy) {
          FactorAxes sorted = strategy.factor_axes;
          for (std::vector<int>& split : sorted) std::ranges::sort(split);
          return mesh.num_axes() < 4 || sorted == strategy.factor_axes ||
                 std::ranges::count(all, sorted, &OpShardSpec::factor_axes) == 0;
        };
        for (const OpShardSpec& strategy : all) {
          std::vector<OpShardSpec>& alike = by_form[form_of(strategy)];
          if (counts(strategy)) alike.push_back(strategy);
        }
        std::set<Form> forms;
        for (const OpShardSpec& strategy : few) forms.insert(form_of(strategy));
        CHECK(forms.size() == by_form.size());
        for (const OpShardSpec& strategy : few) {
          CHECK(op_shard_specs_like(graph, node, *rule, mesh, {}, canonical(strategy, symmetric),
                                    symmetric) == by_form.at(form_of(strategy)));
        }
        fewer += few.size() < all.size();
      }
    }
  }
  CHECK(fewer > 20);
}
