#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A node that is eliminated, and the tables that go with it.
struct Bucket {
  int node = 0;
  std::vector<int> nodes = {};             ///< its neighbours at that step, and itself last
  std::vector<std::size_t> edges = {};     ///< of the problem, between it and them
  std::vector<std::size_t> children = {};  ///< buckets whose tables are summed here

  /// The nodes of its table.
  std::span<const int> separator() const { return std::span(nodes).first(nodes.size() - 1); }
};

/// Which node is eliminated next (Kjaerulff 1990); none of the rules is best on all graphs.
enum class EliminationOrder {
  fewest_cells,     ///< the cells of its table times its own strategies are fewest
  smallest_tables,  ///< those of its table, and of pairs that become neighbours, are fewest
  least_fill        ///< the fewest pairs become neighbours
};
inline constexpr EliminationOrder elimination_orders[] = {EliminationOrder::fewest_cells,
                                                          EliminationOrder::smallest_tables,
                                                          EliminationOrder::least_fill};

/// The order of bucket elimination (Dechter 1999): one node after the other is replaced by a table
/// over its neighbours' strategies. On graphs of small treewidth all tables stay small. One serves
/// all problems that differ in their costs and usage alone.
class BucketTree {
 public:
  struct Limits {
    EliminationOrder order = EliminationOrder::fewest_cells;
    double most_cells_of_a_table = 1e18;
    double most_cells = 1e18;  ///< in all tables together
    Deadline deadline = {};
  };

  /// nullopt where tables grow beyond the limits.
  static std::optional<BucketTree> make(const AssignmentProblem& problem, const Limits& limits);

  /// Orders separators so that in each table the strategies of the node that is eliminated next lie
  /// side by side.
  void put_parents_last();

  /// Children before parents; the last is the root, which joins components.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::size_t strategies(int node) const { return strategies_[node]; }
  /// The size of its table.
  std::size_t cells(const Bucket& bucket) const;
  /// By the bucket's nodes, the strides in the tables of its edges and then of its children.
  using Strides = std::vector<std::vector<std::size_t>>;
  Strides strides(const Bucket& bucket) const;

  /// Calls visit(cell, places, digits) for each cell over the bucket's nodes, row-major, with its
  /// places in the tables of the edges and then of the children, and the nodes' strategies.
  void for_each_cell(const Bucket& bucket, const auto& visit) const {
    const auto steps = strides(bucket);
    std::vector<std::size_t> digits(bucket.nodes.size(), 0);
    std::vector<std::size_t> places(bucket.edges.size() + bucket.children.size(), 0);
    const std::size_t end = cells(bucket) * strategies(bucket.node);
    for (std::size_t cell = 0; cell < end; ++cell) {
      visit(cell, std::as_const(places), std::as_const(digits));
      for (std::size_t k = digits.size(); k-- > 0;) {
        const bool is_carried = ++digits[k] == strategies(bucket.nodes[k]);
        for (std::size_t table = 0; table < places.size(); ++table) {
          places[table] += steps[k][table];
          if (is_carried) places[table] -= steps[k][table] * digits[k];
        }
        if (!is_carried) break;
        digits[k] = 0;
      }
    }
  }

 private:
  explicit BucketTree(const AssignmentProblem& problem);

  std::vector<std::size_t> strategies_;    ///< by node
  std::vector<std::array<int, 2>> edges_;  ///< their nodes
  std::vector<Bucket> buckets_;
};

}  // namespace autopar::assignment
