#pragma once

#include <onnx/onnx_pb.h>

#include "base/problems.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/topological_order.h"

namespace autopar::graph {

/// Collects what is wrong with the nodes of a model, once for all nodes of an operator that are
/// refused for one reason. Nodes that read what refused ones would make are passed over.
class RefusedNodes {
 public:
  explicit RefusedNodes(std::string where) : where_(std::move(where)) {}

  /// Takes the step that reads the node, unless the node reads what a refused one would make. Keeps
  /// what it throws; an UnknownShape that comes first goes on.
  template <typename Step>
  void try_node(const onnx::NodeProto& node, const Step& step) {
    if (reads_refused(node)) return refuse_outputs(node);
    try {
      step();
    } catch (const UnknownShape&) {
      if (reasons_.empty()) throw;
      refuse_outputs(node);
    } catch (const Error& error) {
      refuse(node, error.what());
    }
  }

  /// A line a reason.
  void throw_if_any() const;

 private:
  /// Why nodes of one operator are refused, and how many.
  struct Reason {
    std::string op_type;
    std::string text;     ///< without the node
    std::string message;  ///< of the first node
    int count = 1;
  };

  bool reads_refused(const onnx::NodeProto& node) const;
  void refuse(const onnx::NodeProto& node, const std::string& message);
  void refuse_outputs(const onnx::NodeProto& node);

  std::string where_;
  std::vector<Reason> reasons_;
  std::unordered_set<std::string> names_;  ///< of what refused nodes would make
};

}  // namespace autopar::graph
