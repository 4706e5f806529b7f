#include "graph/onnx/import/inlined_nodes.h"

#include <optional>
#include <unordered_map>

#include "base/checked.h"
#include "graph/onnx/import/model_reading.h"

namespace autopar::graph {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Counts each function once, however often it is called.
class InlinedNodes {
 public:
  explicit InlinedNodes(const ModelFile& file) : facts_(facts_of(file)) {}

  std::int64_t of(const Nodes& nodes) {
    std::int64_t count = 0;
    for (const onnx::NodeProto& node : nodes) count = saturated_add(count, of(node));
    return count;
  }

 private:
  std::int64_t of(const onnx::NodeProto& node) {
    std::int64_t count = 1;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count = saturated_add(count, of(attribute.g().node()));
      for (const onnx::GraphProto& graph : attribute.graphs())
        count = saturated_add(count, of(graph.node()));
    }
    const onnx::FunctionProto* function = find_function(node, facts_);
    return function == nullptr ? count : saturated_add(count, of(*function));
  }

  std::int64_t of(const onnx::FunctionProto& function) {
    const auto [entry, is_new] = counts_.try_emplace(&function, std::nullopt);
    if (!is_new && !entry->second)
      fail("the model's function '{}' calls itself: export the model without it", function.name());
    if (!is_new) return *entry->second;
    const std::int64_t count = of(function.node());
    counts_[&function] = count;
    return count;
  }

  ModelFacts facts_;
  /// Nothing while a function is counted.
  std::unordered_map<const onnx::FunctionProto*, std::optional<std::int64_t>> counts_;
};

}  // namespace

void check_inlined_nodes(const ModelFile& file, const ImportLimits& limits) {
  const std::string where = file.path().string();
  try {
    const std::int64_t nodes = InlinedNodes(file).of(file.model().graph().node());
    if (nodes > saturated_add(limits.nodes, file.model().graph().node_size()))
      fail_for_nodes(where, limits);
  } catch (const LimitReached&) {
    throw;
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

}  // namespace autopar::graph
