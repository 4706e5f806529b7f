#include "assignment/elimination/bucket_tree.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace autopar::assignment {

namespace {

/// Nodes of more neighbours wait until they have fewer: their pairs would take long to count.
constexpr std::size_t most_neighbours = 300;
constexpr double wait = 1e300;
/// What a neighbour counts, in parts of a pair.
constexpr double part_of_pair = 1e-6;

/// The graph that is left while nodes are eliminated; by node.
struct EliminationGraph {
  explicit EliminationGraph(const AssignmentProblem& problem)
      : links(links_of(problem)),
        neighbours(links.size()),
        children(links.size()),
        is_gone(links.size(), 0) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      for (const Link& link : links[i]) neighbours[i].push_back(link.other);
      std::ranges::sort(neighbours[i]);
      neighbours[i].erase(std::unique(neighbours[i].begin(), neighbours[i].end()),
                          neighbours[i].end());
    }
  }

  Links links;                                     ///< of the problem
  std::vector<std::vector<int>> neighbours;        ///< ascending
  std::vector<std::vector<std::size_t>> children;  ///< buckets whose tables are over the node
  std::vector<char> is_gone;
};

using Place = std::vector<int>::const_iterator;

/// The first that is not less than `value`, mostly near `begin`: strides towards it double.
Place first_from(int value, Place begin, Place end) {
  std::ptrdiff_t stride = 1;
  for (; end - begin > stride && begin[stride] < value; stride *= 2) begin += stride;
  return std::lower_bound(begin, begin + std::min(stride + 1, end - begin), value);
}

/// What the pairs of neighbours of a node weigh that its elimination would make neighbours.
double fill_of(int i, const EliminationGraph& graph, const auto& weight) {
  const std::vector<int>& neighbours = graph.neighbours[i];
  if (neighbours.size() > most_neighbours) return wait;
  double fill = 0;
  for (auto j = neighbours.begin(); j != neighbours.end(); ++j) {
    const std::vector<int>& known = graph.neighbours[*j];
    auto at = known.begin();
    for (auto k = std::next(j); k != neighbours.end(); ++k) {
      at = first_from(*k, at, known.end());
      if (at == known.end() || *at != *k) fill += weight(*j, *k);
    }
  }
  return fill;
}

/// The neighbours of j when i has been eliminated: those known and the others of the separator.
std::vector<int> joined_neighbours(int j, std::span<const int> separator, int i,
                                   const std::vector<int>& known) {
  std::vector<int> joined;
  joined.reserve(known.size() + separator.size());
  std::ranges::set_union(known, separator, std::back_inserter(joined));
  std::erase_if(joined, [&](int k) { return k == i || k == j; });
  return joined;
}

/// Eliminates a node: its bucket, with this index, is over its neighbours, which become neighbours
/// of each other.
Bucket eliminate(int i, std::size_t index, EliminationGraph& graph) {
  Bucket bucket{.node = i};
  bucket.nodes.assign(graph.neighbours[i].begin(), graph.neighbours[i].end());
  bucket.nodes.push_back(i);
  for (const auto& [edge, other] : graph.links[i]) {
    if (!graph.is_gone[other]) bucket.edges.push_back(edge);
  }
  bucket.children = std::move(graph.children[i]);
  graph.is_gone[i] = 1;
  // Its table is summed where the first of its neighbours is eliminated.
  for (const int j : bucket.separator()) {
    graph.neighbours[j] = joined_neighbours(j, bucket.separator(), i, graph.neighbours[j]);
    graph.children[j].push_back(index);
  }
  return bucket;
}

}  // namespace

BucketTree::BucketTree(const AssignmentProblem& problem) {
  for (const auto& node : problem.nodes) strategies_.push_back(node.costs.size());
  for (const auto& edge : problem.edges) edges_.push_back({edge.a, edge.b});
}

std::optional<BucketTree> BucketTree::make(const AssignmentProblem& problem, const Limits& limits) {
  BucketTree tree(problem);
  EliminationGraph graph(problem);
  const auto cells_of = [&](int i) {
    double cells = static_cast<double>(tree.strategies(i));
    for (const int j : graph.neighbours[i]) {
      cells *= static_cast<double>(tree.strategies(j));
      if (cells > limits.most_cells) break;  // too large is enough to know
    }
    return cells;
  };
  // The least is next.
  const auto rank = [&](int i) {
    const double cells = cells_of(i);
    const auto pairs = [&](int j, int k) {
      return static_cast<double>(tree.strategies(j)) * static_cast<double>(tree.strategies(k));
    };
    const auto one = [](int, int) { return 1.0; };
    switch (limits.order) {
      case EliminationOrder::smallest_tables:
        return cells / static_cast<double>(tree.strategies(i)) + fill_of(i, graph, pairs);
      case EliminationOrder::least_fill:
        return fill_of(i, graph, one) +
               part_of_pair * static_cast<double>(graph.neighbours[i].size());
      case EliminationOrder::fewest_cells:
        break;
    }
    return cells;
  };
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (int i = 0; i < std::ssize(problem.nodes); ++i) queue.emplace(rank(i), i);
  std::optional<std::size_t> root;
  double cells_left = limits.most_cells;
  while (!queue.empty()) {
    const auto [known, i] = queue.top();
    queue.pop();
    if (graph.is_gone[i]) continue;
    if (const double now = rank(i); now > known) {
      queue.emplace(now, i);
      continue;
    }
    const double cells = cells_of(i);
    cells_left -= cells;
    if (cells_left < 0 || cells > limits.most_cells_of_a_table || limits.deadline.is_over()) {
      return std::nullopt;
    }
    const std::size_t index = tree.buckets_.size();
    Bucket bucket = eliminate(i, index, graph);
    for (const int j : bucket.separator()) queue.emplace(rank(j), j);
    // The other neighbours do not sum the tables that are summed here.
    for (const std::size_t child : bucket.children) {
      for (const int j : tree.buckets_[child].separator()) {
        if (j != i) std::erase(graph.children[j], child);
      }
    }
    if (bucket.nodes.size() == 1) {
      if (root) bucket.children.push_back(*root);
      root = index;
    }
    tree.buckets_.push_back(std::move(bucket));
  }
  return tree;
}

void BucketTree::put_parents_last() {
  for (const Bucket& parent : buckets_) {
    for (const std::size_t child : parent.children) {
      std::vector<int>& nodes = buckets_[child].nodes;
      const auto place = std::ranges::find(nodes, parent.node);
      if (place != nodes.end()) std::rotate(place, place + 1, nodes.end() - 1);
    }
  }
}

std::size_t BucketTree::cells(const Bucket& bucket) const {
  std::size_t cells = 1;
  for (const int i : bucket.separator()) cells *= strategies(i);
  return cells;
}

BucketTree::Strides BucketTree::strides(const Bucket& bucket) const {
  Strides result(bucket.nodes.size());
  for (auto& steps : result) steps.resize(bucket.edges.size() + bucket.children.size(), 0);
  std::size_t table = 0;
  const auto add_table = [&](std::span<const int> nodes) {
    std::size_t stride = 1;
    for (std::size_t k = nodes.size(); k-- > 0;) {
      const auto place = std::ranges::find(bucket.nodes, nodes[k]) - bucket.nodes.begin();
      result[static_cast<std::size_t>(place)][table] = stride;
      stride *= strategies(nodes[k]);
    }
    ++table;
  };
  for (const std::size_t k : bucket.edges) add_table(edges_[k]);
  for (const std::size_t child : bucket.children) add_table(buckets_[child].separator());
  return result;
}

}  // namespace autopar::assignment
