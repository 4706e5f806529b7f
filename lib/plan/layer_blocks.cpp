#include "plan/layer_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "plan/operator_groups.h"

namespace autopar::plan {

namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::size_t least_layer = 3;  ///< operators of a repeated layer
constexpr std::size_t most_layer = 4000;
constexpr std::size_t least_repeated = 8;  ///< operators of all its repetitions
constexpr std::size_t least_piece = 12;    ///< operators of what is not repeated, where it is cut
constexpr std::size_t most_piece = 36;

/// Nodes [begin, end).
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

struct Repetition {
  std::size_t begin = 0;
  std::size_t period = 0;
  std::size_t repeats = 0;
  std::size_t slack = 0;  ///< it may begin so many nodes later
  std::size_t covered() const { return period * repeats; }
};

/// Equal for operators that compute the same on tensors of the same shapes.
class Likeness {
 public:
  explicit Likeness(const Graph& graph) {
    for (const Node& node : graph.nodes)
      ids_.push_back(
          static_cast<int>(known_.try_emplace(key(graph, node), known_.size()).first->second));
  }
  const std::vector<int>& ids() const { return ids_; }

 private:
  static std::string key(const Graph& graph, const Node& node) {
    std::string text = qualified_op_type(node);
    for (const auto* values : {&node.inputs, &node.outputs})
      for (const ValueId value : *values)
        text += value == graph::no_value ? "|-"
                                         : fmt::format("|{}{}", graph.is_constant(value) ? "c" : "",
                                                       fmt::join(graph.value(value).shape, "x"));
    return text;
  }

  std::map<std::string, std::size_t> known_;
  std::vector<int> ids_;
};

/// By place between nodes: the values that are made before it and read from it on.
std::vector<int> values_across(const Graph& graph) {
  std::vector<int> change(graph.nodes.size() + 1, 0);
  const auto readers = graph::consumers(graph);
  const auto makers = graph::producers(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (makers[v] == graph::no_node || readers[v].empty()) continue;
    const NodeId last = *std::ranges::max_element(readers[v]);
    ++change[static_cast<std::size_t>(makers[v]) + 1];
    --change[static_cast<std::size_t>(last) + 1];
  }
  std::inclusive_scan(change.begin(), change.end(), change.begin());
  return change;
}

/// What covers most operators; of equals, the shortest layer.
std::optional<Repetition> longest_repetition(std::span<const int> likes, Stretch in) {
  std::optional<Repetition> best;
  const std::size_t longest = std::min(in.size() / 2, most_layer);
  for (std::size_t period = least_layer; period <= longest; ++period) {
    std::size_t run = 0;
    for (std::size_t i = in.begin; i + period < in.end; ++i) {
      run = likes[i] == likes[i + period] ? run + 1 : 0;
      const std::size_t length = run + period;
      const std::size_t repeats = length / period;
      const Repetition found{i + 1 - run, period, repeats, length % period};
      if (repeats < 2 || found.covered() < least_repeated) continue;
      if (!best || found.covered() > best->covered() ||
          (found.period == best->period && found.begin == best->begin &&
           found.covered() == best->covered()))
        best = found;
    }
  }
  return best;
}

/// Moves the begin to where least goes across.
void align(Repetition& repetition, std::span<const int> across) {
  const auto begin = across.begin() + static_cast<std::ptrdiff_t>(repetition.begin);
  const auto least =
      std::min_element(begin, begin + static_cast<std::ptrdiff_t>(repetition.slack) + 1);
  repetition.begin += static_cast<std::size_t>(least - begin);
}

/// The part of names up to the last separator that all have in common; numbers in which they
/// differ are left standing.
std::string common_scope(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string_view common = names.front();
  for (const std::string& name : names) {
    const auto differ = std::ranges::mismatch(common, name);
    common = common.substr(0, static_cast<std::size_t>(differ.in1 - common.begin()));
  }
  const std::size_t cut = common.find_last_of("/.");
  return cut == std::string_view::npos ? "" : std::string(common.substr(0, cut));
}

class Blocks {
 public:
  Blocks(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), likes_(graph), across_(values_across(graph)) {}

  std::vector<LayerBlock> find() {
    divide({0, graph_.nodes.size()});
    return std::move(blocks_);
  }

 private:
  void divide(Stretch part) {
    if (part.size() == 0) return;
    std::optional<Repetition> repetition = longest_repetition(likes_.ids(), part);
    if (!repetition) return cut(part);
    align(*repetition, across_);
    divide({part.begin, repetition->begin});
    add_layers(*repetition);
    divide({repetition->begin + repetition->covered(), part.end});
  }

  /// Cuts what is not repeated where least goes across.
  void cut(Stretch part) {
    while (part.size() > most_piece) {
      const auto from = across_.begin() + static_cast<std::ptrdiff_t>(part.begin + least_piece);
      const auto to = across_.begin() +
                      static_cast<std::ptrdiff_t>(std::min(part.begin + most_piece, part.end - 1));
      const auto place = static_cast<std::size_t>(std::min_element(from, to + 1) - across_.begin());
      add({part.begin, place}, 1);
      part.begin = place;
    }
    add(part, 1);
  }

  /// A block for each run of layers that are split alike.
  void add_layers(const Repetition& found) {
    const auto layer = [&](std::size_t r) {
      const std::size_t begin = found.begin + r * found.period;
      return std::span(plan_.operators).subspan(begin, found.period);
    };
    std::size_t first = 0;
    for (std::size_t r = 1; r <= found.repeats; ++r) {
      if (r < found.repeats && std::ranges::equal(layer(first), layer(r))) continue;
      const std::size_t begin = found.begin + first * found.period;
      add({begin, begin + found.period}, r - first);
      first = r;
    }
  }

  void add(Stretch one, std::size_t repeats) {
    blocks_.push_back({name_of(one, repeats), static_cast<NodeId>(one.begin), one.size(), repeats});
  }

  std::string name_of(Stretch one, std::size_t repeats) const {
    std::vector<std::string> scopes;
    for (std::size_t r = 0; r < repeats; ++r) {
      const Stretch layer{one.begin + r * one.size(), one.end + r * one.size()};
      std::string scope = common_scope(node_names(layer));
      if (scope.empty()) scope = common_scope(weight_names(layer));
      scopes.push_back(std::move(scope));
    }
    return common_name(scopes);
  }

  std::vector<std::string> node_names(Stretch part) const {
    std::vector<std::string> names;
    for (std::size_t n = part.begin; n < part.end; ++n) names.push_back(graph_.nodes[n].name);
    return names;
  }

  std::vector<std::string> weight_names(Stretch part) const {
    std::vector<std::string> names;
    for (std::size_t n = part.begin; n < part.end; ++n)
      for (const ValueId input : graph_.nodes[n].inputs)
        if (graph_.is_constant(input) && graph::holds_weights(graph_.value(input).type) &&
            graph_.value(input).shape.size() > 1)
          names.push_back(graph_.value(input).name);
    return names;
  }

  const Graph& graph_;
  const Plan& plan_;
  Likeness likes_;
  std::vector<int> across_;
  std::vector<LayerBlock> blocks_;
};

}  // namespace

std::vector<LayerBlock> layer_blocks(const Graph& graph, const Plan& plan) {
  return Blocks(graph, plan).find();
}

}  // namespace autopar::plan
