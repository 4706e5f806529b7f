#include "assignment/repetition/repeated_layers.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "assignment/memo.h"

namespace autopar::assignment {

namespace {

/// So many edges away, surroundings tell nodes apart: about the extent of a layer, since the ends
/// of the model are seen from as far.
constexpr int rounds_of_refinement = 3;

/// An edge, seen from one of its nodes: its table and which of the two the node is.
std::size_t hash_of_end(const AssignmentProblem::Edge& edge, int node) {
  const auto table = reinterpret_cast<std::uintptr_t>(edge.costs.identity());
  return combined(edge.a == node ? 1 : 2, table);
}

using Colours = std::vector<std::size_t>;

Colours colours_of(const AssignmentProblem& problem, const Links& links) {
  Colours colours;
  for (const auto& node : problem.nodes)
    colours.push_back(combined(hash_of(node.costs), hash_of(node.usages)));
  std::vector<std::size_t> around;
  for (int round = 0; round < rounds_of_refinement; ++round) {
    Colours refined;
    for (int i = 0; i < std::ssize(problem.nodes); ++i) {
      around.clear();
      for (const auto& [edge, other] : links[i])
        around.push_back(combined(hash_of_end(problem.edges[edge], i), colours[other]));
      std::ranges::sort(around);
      refined.push_back(combined(colours[i], hash_of(around)));
    }
    colours = std::move(refined);
  }
  return colours;
}

/// The nodes of each colour, in order.
std::vector<std::vector<int>> classes_of(const Colours& colours) {
  std::unordered_map<std::size_t, std::size_t> known;
  std::vector<std::vector<int>> classes;
  for (int i = 0; i < std::ssize(colours); ++i) {
    const auto [place, is_new] = known.try_emplace(colours[i], classes.size());
    if (is_new) classes.emplace_back();
    classes[place->second].push_back(i);
  }
  return classes;
}

/// The class that layers are counted by: of those whose size most nodes share, the one with most
/// edges.
std::optional<std::size_t> base_class(const std::vector<std::vector<int>>& classes,
                                      const Links& links, int least_layers) {
  std::map<std::size_t, std::size_t> nodes_by_size;
  for (const auto& members : classes)
    if (std::cmp_greater_equal(members.size(), least_layers))
      nodes_by_size[members.size()] += members.size();
  if (nodes_by_size.empty()) return std::nullopt;
  const auto size =
      std::ranges::max_element(nodes_by_size, {}, [](const auto& entry) { return entry.second; });
  std::optional<std::size_t> best;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].size() != size->first) continue;
    if (!best || links[classes[c].front()].size() > links[classes[*best].front()].size()) best = c;
  }
  return best;
}

/// Gives layers to the classes around those that have one: a node is in the first layer of its
/// neighbours in the class that it is reached from.
void spread_layers(const AssignmentProblem& problem, const Links& links,
                   const std::vector<std::vector<int>>& classes, std::size_t base,
                   std::vector<int>& layer) {
  constexpr int none = RepeatedLayers::none;
  std::vector<std::size_t> class_of(problem.nodes.size());
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (const int node : classes[c]) class_of[node] = c;
  const std::size_t least_size = classes[base].size() / 2;
  std::vector<std::size_t> reached = {base};
  std::vector<bool> is_reached(classes.size(), false);
  is_reached[base] = true;
  for (std::size_t k = 0; k < reached.size(); ++k) {
    for (const auto& [edge, other] : links[classes[reached[k]][classes[reached[k]].size() / 2]]) {
      const std::size_t c = class_of[other];
      if (is_reached[c] || classes[c].size() < least_size) continue;
      const std::size_t seen = hash_of_end(problem.edges[edge], other);
      std::vector<int> found;
      for (const int node : classes[c]) {
        int first = none;
        for (const auto& [own, neighbour] : links[node]) {
          const bool is_same =
              class_of[neighbour] == reached[k] && hash_of_end(problem.edges[own], node) == seen;
          if (is_same && (first == none || layer[neighbour] < first)) first = layer[neighbour];
        }
        found.push_back(first);
      }
      if (4 * std::ranges::count(found, none) > std::ssize(found)) continue;
      for (std::size_t m = 0; m < found.size(); ++m) layer[classes[c][m]] = found[m];
      reached.push_back(c);
      is_reached[c] = true;
    }
  }
}

}  // namespace

std::optional<RepeatedLayers> find_repeated_layers(const AssignmentProblem& problem,
                                                   int least_layers) {
  const Links links = links_of(problem);
  const auto classes = classes_of(colours_of(problem, links));
  const auto base = base_class(classes, links, least_layers);
  if (!base) return std::nullopt;
  RepeatedLayers repeated{.layers = static_cast<int>(classes[*base].size()),
                          .layer = std::vector<int>(problem.nodes.size(), RepeatedLayers::none),
                          .kind = std::vector<int>(problem.nodes.size(), RepeatedLayers::none),
                          .nodes = {}};
  for (int k = 0; k < repeated.layers; ++k) repeated.layer[classes[*base][k]] = k;
  spread_layers(problem, links, classes, *base, repeated.layer);
  for (const auto& members : classes) {
    const auto first_kind = repeated.nodes.size();
    std::vector<std::size_t> count(static_cast<std::size_t>(repeated.layers), 0);
    for (const int node : members) {
      if (repeated.layer[node] == RepeatedLayers::none) continue;
      const auto k = static_cast<std::size_t>(repeated.layer[node]);
      const std::size_t kind = first_kind + count[k]++;
      if (kind == repeated.nodes.size())
        repeated.nodes.emplace_back(static_cast<std::size_t>(repeated.layers),
                                    RepeatedLayers::none);
      repeated.kind[node] = static_cast<int>(kind);
      repeated.nodes[kind][k] = node;
    }
  }
  return repeated;
}

}  // namespace autopar::assignment
