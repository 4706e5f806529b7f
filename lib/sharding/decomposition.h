#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::sharding {

/// Writes the operators that one operator is decomposed into (ShardingRule::decompose).
class Decomposer {
 public:
  using ValueId = graph::ValueId;

  /// Decomposes `node`, whose inputs and outputs are values of `graph`; the parts and their values
  /// are appended to the graph.
  Decomposer(graph::Graph& graph, const graph::Node& node) : graph_(graph), node_(node) {}

  const graph::Node& node() const { return node_; }
  /// no_value where it is left out.
  ValueId input(std::size_t i) const;
  graph::DataType type(ValueId value) const { return graph_.value(value).type; }
  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }

  /// The output of one more operator, called after it.
  ValueId make(const std::string& op_type, std::vector<ValueId> inputs,
               std::map<std::string, graph::Attribute> attributes = {});
  /// A reduction of these dimensions, which stay with extent 1.
  ValueId reduce(const std::string& op_type, ValueId value, const std::vector<std::size_t>& dims);
  /// A reduction by sums, divided by the number of elements of each.
  ValueId mean(const std::string& op_type, ValueId value, const std::vector<std::size_t>& dims);
  ValueId ints(const std::vector<std::int64_t>& values);
  /// A scalar of the type of `like`.
  ValueId number(double value, ValueId like);
  /// A half type as float32, in which what is summed up keeps its digits; others as they are.
  ValueId wide(ValueId value);
  ValueId cast(ValueId value, graph::DataType type);
  /// The value is output `i`, in the output's type; nothing where that is left out.
  void set_output(std::size_t i, ValueId value);

 private:
  graph::Graph& graph_;
  const graph::Node node_;
};

/// An operator as others, its parts, whose own rules say what ranks exchange.
struct Decomposition {
  /// First values: the operator's inputs and then its outputs, but for those left out.
  graph::Graph graph;
  std::vector<graph::ValueId> ports;    ///< by those: the value in the operator's own graph
  std::vector<OpShardSpec> strategies;  ///< by NodeId
};

/// The operator as the rule decomposes it, with the strategies that together do what `spec` says.
Decomposition decompose(const graph::Graph& graph, const graph::Node& node,
                        const ShardingRule& rule, const OpShardSpec& spec, const DeviceMesh& mesh);

/// Replaces the operators that run decomposed by their parts. Values keep their ids; those between
/// the new operators are new. `strategies`: by NodeId, before and after.
void decompose_normalized(graph::Graph& graph, std::vector<OpShardSpec>& strategies,
                          const DeviceMesh& mesh);

}  // namespace autopar::sharding
