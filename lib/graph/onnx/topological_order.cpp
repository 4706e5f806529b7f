#include "graph/onnx/topological_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "base/error.h"

namespace autopar::graph {
namespace {

constexpr std::size_t no_producer = static_cast<std::size_t>(-1);
using Producers = std::unordered_map<std::string_view, std::size_t>;

void collect_reads(const onnx::NodeProto& node, std::unordered_set<std::string_view>& reads) {
  for (const auto& input : node.input())
    if (!input.empty()) reads.insert(input);
  const auto collect_graph = [&reads](const onnx::GraphProto& graph) {
    std::unordered_set<std::string_view> inner;
    for (const auto& child : graph.node()) collect_reads(child, inner);
    for (const auto& output : graph.output()) inner.insert(output.name());
    for (const auto& input : graph.input()) inner.erase(input.name());
    for (const auto& initializer : graph.initializer()) inner.erase(initializer.name());
    for (const auto& child : graph.node())
      for (const auto& output : child.output()) inner.erase(output);
    reads.merge(inner);
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) collect_graph(attribute.g());
    for (const auto& graph : attribute.graphs()) collect_graph(graph);
  }
}

Producers find_producers(const onnx::GraphProto& graph, std::string_view where) {
  Producers producers;
  const auto add = [&](std::string_view name, std::size_t node) {
    if (!producers.try_emplace(name, node).second)
      fail("{}: the value '{}' is made more than once, last by {}", where, name,
           node == no_producer ? "an initializer or input"
                               : describe(graph.node(static_cast<int>(node))));
  };
  std::unordered_set<std::string_view> initializers;
  for (const auto& initializer : graph.initializer()) {
    add(initializer.name(), no_producer);
    initializers.insert(initializer.name());
  }
  for (const auto& input : graph.input())
    if (!initializers.contains(input.name())) add(input.name(), no_producer);
  for (int n = 0; n < graph.node_size(); ++n)
    for (const auto& output : graph.node(n).output())
      if (!output.empty()) add(output, static_cast<std::size_t>(n));
  return producers;
}

/// Names the nodes of one cycle among those that could not be ordered.
[[noreturn]] void fail_with_cycle(const onnx::GraphProto& graph, const Producers& producers,
                                  const std::vector<bool>& ordered, std::string_view where) {
  auto at = static_cast<std::size_t>(std::ranges::find(ordered, false) - ordered.begin());
  std::vector<std::size_t> path;
  while (std::ranges::find(path, at) == path.end()) {
    path.push_back(at);
    for (const std::string_view name : names_read(graph.node(static_cast<int>(at)))) {
      const std::size_t producer = producers.at(name);
      if (producer == no_producer || ordered[producer]) continue;
      at = producer;
      break;
    }
  }
  std::vector<std::string> names;
  for (auto node = std::ranges::find(path, at); node != path.end() && names.size() < 5; ++node)
    names.push_back(describe(graph.node(static_cast<int>(*node))));
  std::ranges::reverse(names);
  fail("{}: the graph has a cycle through {}", where, fmt::join(names, ", "));
}

}  // namespace

std::string describe(const onnx::NodeProto& node) {
  const std::string op =
      node.domain().empty() ? node.op_type() : node.domain() + "::" + node.op_type();
  if (!node.name().empty()) return fmt::format("node '{}' ({})", node.name(), op);
  return fmt::format("the unnamed node ({}) of '{}'", op,
                     node.output().empty() ? "" : node.output(0));
}

std::unordered_set<std::string_view> names_read(const onnx::NodeProto& node) {
  std::unordered_set<std::string_view> reads;
  collect_reads(node, reads);
  return reads;
}

std::vector<const onnx::NodeProto*> topological_order(const onnx::GraphProto& graph,
                                                      std::string_view where) {
  const Producers producers = find_producers(graph, where);
  const auto count = static_cast<std::size_t>(graph.node_size());
  std::vector<int> waiting_for(count, 0);
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t n = 0; n < count; ++n) {
    const auto& node = graph.node(static_cast<int>(n));
    for (const std::string_view name : names_read(node)) {
      const auto producer = producers.find(name);
      if (producer == producers.end())
        fail("{}: {} reads '{}', which no input, initializer or node makes", where, describe(node),
             name);
      if (producer->second == no_producer) continue;
      readers[producer->second].push_back(n);
      ++waiting_for[n];
    }
  }
  for (const auto& output : graph.output())
    if (!producers.contains(output.name()))
      fail("{}: nothing makes the graph's output '{}'", where, output.name());

  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t n = 0; n < count; ++n)
    if (waiting_for[n] == 0) ready.push(n);
  std::vector<const onnx::NodeProto*> order;
  std::vector<bool> ordered(count, false);
  while (!ready.empty()) {
    const std::size_t n = ready.top();
    ready.pop();
    ordered[n] = true;
    order.push_back(&graph.node(static_cast<int>(n)));
    for (const std::size_t reader : readers[n])
      if (--waiting_for[reader] == 0) ready.push(reader);
  }
  if (order.size() != count) fail_with_cycle(graph, producers, ordered, where);
  return order;
}

}  // namespace autopar::graph
