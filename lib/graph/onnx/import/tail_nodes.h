#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/tail_file.h"

namespace autopar::graph {

/// The nodes of a model that are left to its tail, in order.
class TailNodes {
 public:
  bool empty() const { return nodes_.empty(); }
  /// Whether the node, or a graph in it, reads what a node of the tail makes.
  bool follows(const onnx::NodeProto& node) const;
  bool makes(const std::string& value) const { return made_.contains(value); }
  /// `reason`: why it is left, for a node that follows none. The node must outlive this.
  void add(const onnx::NodeProto& node, std::string reason = {});
  /// Drops nodes that none of these outputs needs.
  void keep_what_makes(std::unordered_set<std::string> outputs);
  /// What the nodes read that none of them makes, in order, each once.
  std::vector<std::string> reads() const;

  const std::vector<const onnx::NodeProto*>& nodes() const { return nodes_; }
  /// Why the first node is one of them.
  const std::string& reason() const { return reasons_.at(nodes_.front()); }

 private:
  std::vector<const onnx::NodeProto*> nodes_;
  std::unordered_set<std::string> made_;
  std::map<const onnx::NodeProto*, std::string> reasons_;  ///< of nodes that follow none
};

/// What the tail calls a value that is made before it.
struct TailRead {
  std::string name;
  std::vector<ValueId> values;  ///< one, or the tensors of a sequence
  bool is_sequence = false;
};
using TailReads = std::vector<TailRead>;

/// `graph` has all that is before the tail; what the tail reads of it is an input, a constant or an
/// output there. Throws Error for an output of strings, and for one without a type.
Tail make_tail(ModelFile& file, const TailNodes& nodes, const TailReads& reads, const Graph& graph);

/// Tells the tail's shares of weights and arithmetic. Throws UnknownShape where so much is left to
/// it that to split the graph means nothing.
void check_tail(const TailNodes& nodes, Tail& tail, const Graph& graph);

}  // namespace autopar::graph
