#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "assignment/arc_costs.h"

namespace autopar::assignment {

/// Trees of nodes that are set free together, while all others are kept: a free node touches no
/// other free node but its parent and its children. Nodes with a single strategy are never free.
class FreeTrees {
 public:
  struct Place {
    int node;
    int parent;                ///< its place; -1 at a root
    const ArcCosts::Arc* arc;  ///< from the node to its parent
    std::size_t values;        ///< where its strategies' values start
  };

  /// `costs` must outlive it.
  explicit FreeTrees(const ArcCosts& costs);

  /// Keeps all nodes.
  void clear();
  /// Grows a tree from a node until it has that many nodes; leaves of the graph come along and do
  /// not count. Does nothing where the root is free, or touches a free node.
  void grow(int root, std::size_t size, std::mt19937_64& random);

  const ArcCosts& costs() const { return costs_; }
  const std::vector<Place>& places() const { return places_; }  ///< parents before children
  bool is_free(int node) const { return place_[node] >= 0; }
  /// The strategies of all places.
  std::size_t values() const { return values_; }
  /// The arcs that were looked at since they were cleared.
  std::size_t arcs() const { return arcs_; }
  /// Whether a tree may start there.
  bool may_grow(int root) const { return !is_free(root) && touched_in_[root] != round_; }

 private:
  void add_place(int node, int parent, const ArcCosts::Arc* arc);
  void set_free(int node, int parent, const ArcCosts::Arc* arc);

  const ArcCosts& costs_;
  std::vector<Place> places_;
  std::vector<int> place_;  ///< by node; -1 where it is kept
  std::size_t leaves_ = 0;  ///< places that came along
  std::size_t values_ = 0;
  std::size_t arcs_ = 0;
  std::int64_t round_ = 0;                ///< times that they were cleared
  std::vector<std::int64_t> touched_in_;  ///< by node, the round in which a neighbour was set free
  std::vector<int> touches_;              ///< and by how many
  std::vector<const ArcCosts::Arc*> frontier_;  ///< from free nodes to those that may follow
};

}  // namespace autopar::assignment
