// The nodes that a split lookup becomes, run by an interpreter of just those operators.

#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>

#include "unit/sharding/node_sketch.h"
#include "unit/sharding/simulated_devices.h"

using namespace autopar::sharding;
using autopar::graph::DataType;
using autopar::graph::Graph;
using autopar::graph::Node;
using autopar::graph::Tensor;
using simulated::Array;

namespace {

Shape broadcast_index(const Shape& shape, const Shape& index) {
  Shape result(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) result[d] = 0;
  }
  return result;
}

Array elementwise(const std::vector<Array>& in, const Shape& out,
                  const std::function<double(const std::vector<double>&)>& function) {
  Array result{out, {}};
  simulated::for_each_index(out, [&](const Shape& index) {
    std::vector<double> values;
    for (const Array& array : in) {
      values.push_back(simulated::at(array, broadcast_index(array.shape, index)));
    }
    result.data.push_back(function(values));
  });
  return result;
}

Array gathered(const Array& table, const Array& indices, std::size_t axis, const Shape& out) {
  Array result{out, {}};
  const std::size_t places = indices.shape.size();
  simulated::for_each_index(out, [&](const Shape& index) {
    const auto begin = index.begin() + static_cast<std::ptrdiff_t>(axis);
    const Shape place(begin, begin + static_cast<std::ptrdiff_t>(places));
    Shape from(index.begin(), begin);
    auto row = static_cast<std::int64_t>(simulated::at(indices, place));
    if (row < 0) row += table.shape[axis];
    if (row < 0 || row >= table.shape[axis]) throw std::out_of_range("row");
    from.push_back(row);
    from.insert(from.end(), begin + static_cast<std::ptrdiff_t>(places), index.end());
    result.data.push_back(simulated::at(table, from));
  });
  return result;
}

/// Python's modulo, which is ONNX's for integers.
double floored_modulo(double a, double b) { return a - b * std::floor(a / b); }

Array run_node(const Graph& graph, const Node& node, const std::vector<Array>& in) {
  const Shape& out = graph.value(node.outputs[0]).shape;
  using Values = std::vector<double>;
  if (node.op_type == "Gather") {
    return gathered(in[0], in[1], static_cast<std::size_t>(node.int_attribute("axis", 0)), out);
  }
  if (node.op_type == "Reshape") {
    const Shape shape(in[1].data.begin(), in[1].data.end());
    REQUIRE(shape == out);
    return {out, in[0].data};
  }
  const std::map<std::string, std::function<double(const Values&)>> functions{
      {"Mod", [](const Values& v) { return floored_modulo(v[0], v[1]); }},
      {"Sub", [](const Values& v) { return v[0] - v[1]; }},
      {"Less", [](const Values& v) { return v[0] < v[1] ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](const Values& v) { return v[0] >= v[1] ? 1.0 : 0.0; }},
      {"And", [](const Values& v) { return v[0] * v[1]; }},
      {"Where", [](const Values& v) { return v[0] != 0 ? v[1] : v[2]; }},
  };
  return elementwise(in, out, functions.at(node.op_type));
}

/// Runs the shard's nodes; inputs 0 and 1 of the graph are table and indices.
Array run(const Graph& shard, const Array& table, const Array& indices) {
  std::map<autopar::graph::ValueId, Array> values{{shard.inputs[0], table},
                                                  {shard.inputs[1], indices}};
  for (std::size_t id = 0; id < shard.values.size(); ++id) {
    const auto& constant = shard.values[id].constant;
    if (!constant) continue;
    const bool is_float = constant->type() == DataType::float32;
    Array array{constant->shape(), {}};
    if (is_float) {
      for (const float value : constant->values<float>()) array.data.push_back(value);
    } else {
      for (const auto value : constant->to_int64s()) {
        array.data.push_back(static_cast<double>(value));
      }
    }
    values[static_cast<autopar::graph::ValueId>(id)] = array;
  }
  for (const Node& node : shard.nodes) {
    std::vector<Array> in;
    for (const auto id : node.inputs) in.push_back(values.at(id));
    values[node.outputs[0]] = run_node(shard, node, in);
  }
  return values.at(shard.outputs[0]);
}

struct Lookup {
  Shape table;
  Shape indices;
  std::int64_t axis;
  DataType index_type;
};

Graph graph_of(const Lookup& lookup) {
  Shape out = lookup.table;
  const auto axis = out.begin() + lookup.axis;
  out.insert(out.erase(axis), lookup.indices.begin(), lookup.indices.end());
  return sketch("Gather", {of(lookup.table), of(lookup.indices, lookup.index_type)}, {of(out)},
                {{"axis", lookup.axis}});
}

/// What one rank computes; runs the lookup as its rule writes it for that rank.
Array run_rank(const Graph& graph, const ShardingRule& rule, const OpShardSpec& choice,
               const DeviceMesh& mesh, int rank, const Array& table, const Array& indices) {
  const Node& node = graph.nodes[0];
  Graph shard = graph;
  shard.nodes.clear();
  const auto ranges = [&](std::size_t i) {
    return local_ranges(choice.inputs[i], graph.value(node.inputs[i]).shape, mesh, rank);
  };
  const Array local_table = simulated::cut(table, ranges(0));
  const Array local_indices = simulated::cut(indices, ranges(1));
  const Shape& out = graph.value(node.outputs[0]).shape;
  shard.value(node.inputs[0]).shape = local_table.shape;
  shard.value(node.inputs[1]).shape = local_indices.shape;
  shard.value(node.outputs[0]).shape = local_shape(choice.computed[0], out, mesh, rank);
  append_local({shard, rule, node, factor_ranges(rule, choice.factor_axes, mesh, rank)});
  autopar::graph::check_invariants(shard);
  return run(shard, local_table, local_indices);
}

const Lookup lookups[] = {{{7, 3}, {4}, 0, DataType::int64},
                          {{7}, {}, 0, DataType::int32},
                          {{2, 9, 3}, {2, 5}, 1, DataType::int64},
                          {{3, 8}, {5}, 1, DataType::int32}};
const DeviceMesh meshes[] = {DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({2, 2}), DeviceMesh({4})};

}  // namespace

TEST_CASE("every split of a lookup finds the whole lookup's rows, negative indices included") {
  std::mt19937 random(5);
  std::size_t row_splits = 0;
  for (const Lookup& lookup : lookups) {
    const Graph graph = graph_of(lookup);
    const Node& node = graph.nodes[0];
    const auto rows = lookup.table[static_cast<std::size_t>(lookup.axis)];
    const Array table = simulated::filled(
        lookup.table, [&] { return std::uniform_int_distribution<int>(1, 99)(random); });
    const Array indices = simulated::filled(lookup.indices, [&] {
      return static_cast<double>(
          std::uniform_int_distribution<std::int64_t>(-rows, rows - 1)(random));
    });
    const Shape& out = graph.value(node.outputs[0]).shape;
    const Array whole = gathered(table, indices, static_cast<std::size_t>(lookup.axis), out);
    const ShardingRule rule = rule_of(graph);
    CHECK(rule.lookup_input == 0);
    for (const DeviceMesh& mesh : meshes) {
      for (const OpShardSpec& choice : choices_of(graph, mesh)) {
        CAPTURE(to_string(choice), to_string(mesh), autopar::graph::to_string(lookup.table));
        if (choice.computed[0].is_partial()) ++row_splits;
        simulated::Devices devices;
        for (int rank = 0; rank < mesh.num_devices(); ++rank)
          devices.push_back(run_rank(graph, rule, choice, mesh, rank, table, indices));
        REQUIRE(simulated::holds(devices, whole, choice.computed[0], mesh));
      }
    }
  }
  CHECK(row_splits > 20);
}

TEST_CASE("an index out of the whole table's range fails on every rank that looks it up") {
  for (const Lookup& lookup : lookups) {
    const Graph graph = graph_of(lookup);
    const ShardingRule rule = rule_of(graph);
    const auto rows = static_cast<double>(lookup.table[static_cast<std::size_t>(lookup.axis)]);
    const Array table = simulated::filled(lookup.table, [] { return 1; });
    for (const double outside : {rows, rows + 1, 2 * rows, -rows - 1, -2 * rows}) {
      const Array indices = simulated::filled(lookup.indices, [&] { return outside; });
      for (const DeviceMesh& mesh : meshes) {
        for (const OpShardSpec& choice : choices_of(graph, mesh)) {
          for (int rank = 0; rank < mesh.num_devices(); ++rank) {
            const Shape& out = graph.value(graph.outputs[0]).shape;
            const Shape local = local_shape(choice.computed[0], out, mesh, rank);
            if (autopar::graph::num_elements(local) == 0) continue;
            CAPTURE(to_string(choice), to_string(mesh), outside, rank);
            REQUIRE_THROWS_AS(run_rank(graph, rule, choice, mesh, rank, table, indices),
                              std::out_of_range);
          }
        }
      }
    }
  }
}
