#include "graph/onnx/import/refused_nodes.h"

#include <algorithm>

namespace autopar::graph {
namespace {

constexpr std::size_t most_lines = 12;

/// The message without what tells its node from others.
std::string without_node(std::string message, const onnx::NodeProto& node) {
  const std::string named = describe(node);
  const auto at = message.find(named);
  if (at != std::string::npos) message.erase(at, named.size());
  return message;
}

}  // namespace

bool RefusedNodes::reads_refused(const onnx::NodeProto& node) const {
  if (names_.empty()) return false;
  return std::ranges::any_of(
      names_read(node), [&](std::string_view name) { return names_.contains(std::string(name)); });
}

void RefusedNodes::refuse(const onnx::NodeProto& node, const std::string& message) {
  refuse_outputs(node);
  const std::string text = without_node(message, node);
  const auto same = std::ranges::find_if(reasons_, [&](const Reason& reason) {
    return reason.op_type == node.op_type() && reason.text == text;
  });
  if (same != reasons_.end())
    ++same->count;
  else
    reasons_.push_back({node.op_type(), text, message});
}

void RefusedNodes::refuse_outputs(const onnx::NodeProto& node) {
  for (const std::string& output : node.output())
    if (!output.empty()) names_.insert(output);
}

void RefusedNodes::throw_if_any() const {
  Problems problems;
  for (std::size_t i = 0; i < std::min(reasons_.size(), most_lines); ++i) {
    const auto& [op_type, text, message, count] = reasons_[i];
    if (count == 1)
      problems.add("{}", message);
    else
      problems.add("{} ({} nodes of {} in all)", message, count, op_type);
  }
  if (reasons_.size() > most_lines)
    problems.add("{}: {} more reasons to refuse nodes", where_, reasons_.size() - most_lines);
  problems.throw_if_any();
}

}  // namespace autopar::graph
