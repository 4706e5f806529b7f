#include "assignment/local_search/free_trees.h"

namespace autopar::assignment {

FreeTrees::FreeTrees(const ArcCosts& costs)
    : costs_(costs),
      place_(costs.nodes(), -1),
      touched_in_(costs.nodes(), -1),
      touches_(costs.nodes(), 0) {}

void FreeTrees::clear() {
  for (const Place& place : places_) place_[place.node] = -1;
  places_.clear();
  leaves_ = values_ = arcs_ = 0;
  ++round_;
}

void FreeTrees::grow(int root, std::size_t size, std::mt19937_64& random) {
  if (!may_grow(root)) return;
  frontier_.clear();
  set_free(root, -1, nullptr);
  const std::size_t end = places_.size() - leaves_ + size;
  while (!frontier_.empty() && places_.size() - leaves_ < end) {
    const std::size_t pick =
        std::uniform_int_distribution<std::size_t>(0, frontier_.size() - 1)(random);
    const ArcCosts::Arc* from = frontier_[pick];
    frontier_[pick] = frontier_.back();
    frontier_.pop_back();
    // A second free neighbour would close a cycle.
    if (is_free(from->other) || touches_[from->other] > 1) continue;
    set_free(from->other, place_[from->node], &costs_.arc(from->reverse));
  }
}

void FreeTrees::add_place(int node, int parent, const ArcCosts::Arc* arc) {
  place_[node] = static_cast<int>(places_.size());
  places_.push_back({node, parent, arc, values_});
  values_ += costs_.strategies(node);
}

void FreeTrees::set_free(int node, int parent, const ArcCosts::Arc* arc) {
  add_place(node, parent, arc);
  const int place = place_[node];
  arcs_ += costs_.arcs(node).size();
  for (const ArcCosts::Arc& next : costs_.arcs(node)) {
    const int other = next.other;
    if (is_free(other) || costs_.strategies(other) == 1) continue;
    if (costs_.arcs(other).size() == 1) {
      ++leaves_;
      add_place(other, place, &costs_.arc(next.reverse));
      continue;
    }
    if (touched_in_[other] != round_) {
      touched_in_[other] = round_;
      touches_[other] = 0;
      frontier_.push_back(&next);
    }
    ++touches_[other];
  }
}

}  // namespace autopar::assignment
