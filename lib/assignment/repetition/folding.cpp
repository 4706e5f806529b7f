#include "assignment/repetition/folding.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autopar::assignment {

namespace {

constexpr int none = RepeatedLayers::none;
/// So many layers may differ from each other.
constexpr int cycle = 4;
/// Layers at either end that are in no cycle: the fewest that can be joined, up to this.
constexpr int most_layers_of_an_end = 8;
/// Layers that must be left out for one that is kept.
constexpr int least_saving = 2;

/// Times fewer nodes that the folded problem must have: what is in no layer is not folded.
constexpr std::size_t least_shrinking = 2;

CostTable multiplied(const CostTable& costs, int times) {
  std::vector<Cost> made;
  for (const Cost cost : costs)
    made.push_back(cost >= impossible ? impossible : saturated(WideCost{cost} * times));
  return made;
}

}  // namespace

std::optional<Folding> Folding::make(const AssignmentProblem& whole) {
  const auto repeated = find_repeated_layers(whole, (1 + least_saving) * cycle);
  if (!repeated) return std::nullopt;
  for (int ends = 1; ends <= most_layers_of_an_end; ++ends) {
    if ((1 + least_saving) * (2 * ends + cycle) > repeated->layers) break;
    Folding folding(whole, *repeated, ends);
    if (least_shrinking * folding.problem_.nodes.size() > whole.nodes.size()) break;
    if (folding.add_edges()) return folding;
  }
  return std::nullopt;
}

Folding::Folding(const AssignmentProblem& whole, const RepeatedLayers& repeated, int ends)
    : whole_(&whole), repeated_(repeated), place_of_(whole.nodes.size(), none) {
  times_left_out_ = (repeated.layers - 2 * ends - cycle) / cycle;
  end_ = repeated.layers - ends;
  begin_ = end_ - times_left_out_ * cycle;
  const auto horizon = static_cast<int>(whole.usage_limits.size());
  problem_.usage_limits = whole.usage_limits;
  for (int i = 0; i < std::ssize(whole.nodes); ++i) {
    if (is_left_out(i)) continue;
    place_of_[i] = static_cast<int>(problem_.nodes.size());
    auto& node = problem_.nodes.emplace_back(whole.nodes[i]);
    for (Cost& cost : node.costs)
      if (cost < impossible) cost = saturated(WideCost{cost} * times(i));
    if (node.first == 0 && node.end == horizon)
      for (std::int64_t& usage : node.usages) usage *= times(i);
  }
  for (int i = 0; i < std::ssize(whole.nodes); ++i) {
    const int kept = representative(i);
    if (kept != none) place_of_[i] = place_of_[kept];
  }
}

bool Folding::is_left_out(int node) const {
  return repeated_.layer[node] >= begin_ && repeated_.layer[node] < end_;
}

bool Folding::is_in_cycle(int node) const {
  return repeated_.layer[node] >= begin_ - cycle && repeated_.layer[node] < begin_;
}

int Folding::representative(int node) const {
  if (!is_left_out(node)) return node;
  const int beyond = repeated_.layer[node] - begin_;
  return repeated_.moved(node, -(beyond + cycle - beyond % cycle));
}

std::optional<Folding::Folded> Folding::folded(const AssignmentProblem::Edge& edge) const {
  const int a = edge.a;
  const int b = edge.b;
  const auto [first, last] = std::minmax(repeated_.layer[a], repeated_.layer[b]);
  const auto is_inside = [&](int layer) { return layer >= begin_ && layer < end_; };
  const auto joined = [&](int by, int times) -> std::optional<Folded> {
    const Folded made{is_inside(repeated_.layer[a]) ? repeated_.moved(a, by) : a,
                      is_inside(repeated_.layer[b]) ? repeated_.moved(b, by) : b, times};
    if (made.a == none || made.b == none || made.a == made.b) return std::nullopt;
    return made;
  };
  if (first == none) return Folded{a, b, is_inside(last) ? 0 : std::max(times(a), times(b))};
  if (first < begin_ && last >= end_) return std::nullopt;
  if (first < begin_ && is_inside(last))
    return joined(-cycle, times_left_out_);                               // to the next cycle
  if (is_inside(first) && last >= end_) return joined(begin_ - end_, 1);  // out of the last cycle
  if (is_inside(first)) return Folded{a, b, 0};
  return Folded{a, b, is_in_cycle(a) && is_in_cycle(b) ? times(a) : 1};
}

bool Folding::add_edges() {
  std::map<std::pair<const void*, int>, CostTable> tables;  // edges share what they shared
  for (const auto& edge : whole_->edges) {
    const auto made = folded(edge);
    if (!made) return false;
    if (made->times == 0) continue;
    const int a = place_of_[made->a];
    const int b = place_of_[made->b];
    CostTable& table = tables[{edge.costs.identity(), made->times}];
    if (table.empty()) table = made->times == 1 ? edge.costs : multiplied(edge.costs, made->times);
    problem_.edges.push_back({a, b, table});
    times_of_edge_[{std::min(a, b), std::max(a, b)}] = made->times;
  }
  // What is in no layer is joined to all layers, or to those at an end.
  return std::ranges::all_of(whole_->edges, [&](const AssignmentProblem::Edge& edge) {
    return times_of_edge(place_of_[edge.a], place_of_[edge.b]) > 0;
  });
}

int Folding::times_of_edge(int a, int b) const {
  const auto found = times_of_edge_.find({std::min(a, b), std::max(a, b)});
  return found == times_of_edge_.end() ? 0 : found->second;
}

Choice Folding::unfolded(const Choice& choice) const {
  Choice whole(whole_->nodes.size(), 0);
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (place_of_[i] != none) whole[i] = choice[place_of_[i]];
  return whole;
}

std::vector<double> Folding::unfolded(const std::vector<double>& messages, const ArcCosts& folded,
                                      const ArcCosts& whole) const {
  std::vector<double> result(whole.message_entries(), 0.0);
  const double scale = whole.scale() / folded.scale();
  for (std::size_t i = 0; i < whole_->nodes.size(); ++i) {
    const int node = place_of_[i];
    if (node == none) continue;
    for (const ArcCosts::Arc& arc : whole.arcs(i)) {
      const int other = place_of_[arc.other];
      const int times = times_of_edge(node, other);
      if (times == 0) continue;
      const auto arcs = folded.arcs(static_cast<std::size_t>(node));
      const auto same = std::ranges::lower_bound(arcs, other, {}, &ArcCosts::Arc::other);
      for (std::size_t s = 0; s < whole.strategies(i); ++s)
        result[arc.message + s] = std::floor(messages[same->message + s] * scale / times);
    }
  }
  return result;
}

}  // namespace autopar::assignment
