#include "runtime/passes/constant_value.h"

#include <algorithm>
#include <map>

#include "runtime/executable.h"

namespace autopar::runtime::passes {
namespace {

/// Copies what makes a value into a graph of its own.
class Extraction {
 public:
  Extraction(const Matcher& matcher, std::int64_t most_bytes)
      : matcher_(matcher), bytes_left_(most_bytes) {}

  /// Whether the value follows from constants alone, and is in graph() now.
  bool take(ValueId value) {
    if (taken_.contains(value)) return true;
    if (matcher_.has_data(value)) {
      add(value);
      return true;
    }
    const Node* maker = matcher_.maker(value);
    if (maker == nullptr || !is_computable(*maker)) return false;
    for (const ValueId input : maker->inputs)
      if (input != graph::no_value && !take(input)) return false;
    Node copy = *maker;
    for (ValueId& input : copy.inputs)
      if (input != graph::no_value) input = taken_.at(input);
    for (ValueId& output : copy.outputs)
      if (output != graph::no_value) output = add(output);
    graph_.nodes.push_back(std::move(copy));
    return true;
  }

  Graph result(ValueId value) && {
    graph_.opsets = matcher_.opsets();
    graph_.outputs = {taken_.at(value)};
    return std::move(graph_);
  }

 private:
  ValueId add(ValueId value) { return taken_[value] = graph_.add_value(matcher_.value(value)); }

  bool is_computable(const Node& node) {
    if (node.domain == graph::collective_domain || node.body ||
        cpu_kernels().find(node.domain, node.op_type) == nullptr)
      return false;
    for (const ValueId output : node.outputs)
      if (output != graph::no_value)
        bytes_left_ -=
            graph::bytes_of(matcher_.type(output), graph::num_elements(matcher_.shape(output)));
    return bytes_left_ >= 0;
  }

  const Matcher& matcher_;
  std::int64_t bytes_left_;
  Graph graph_;
  std::map<ValueId, ValueId> taken_;
};

}  // namespace

std::optional<graph::Tensor> constant_value(const Matcher& matcher, ValueId value,
                                            std::int64_t most_bytes) {
  if (matcher.is_constant(value)) return matcher.data(value);
  Extraction extraction(matcher, most_bytes);
  if (!extraction.take(value)) return std::nullopt;
  auto results = evaluate_constants(std::move(extraction).result(value));
  return results ? std::optional((*results)[0]) : std::nullopt;
}

}  // namespace autopar::runtime::passes
