#include "search/stages/layers.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "search/stages/run_classes.h"

namespace autopar::search {

namespace {

constexpr int fewest_layers = 32;
constexpr int most_layers = 48;
/// How far a layer's work may be from the average, as a part of it: the first that can be kept to.
constexpr double deltas[] = {0.25, 0.5, 1, 2, 4, 1e18};
/// The ratio of regularities that count as equal.
constexpr double regularity_margin = 1.1;
/// In larger graphs only the narrow places are looked at, about so many for a layer.
constexpr int nodes_worth_thinning = 300;
constexpr int places_a_layer = 16;

/// A unit that is never cut: the nodes between two places where layers may be.
struct Segment {
  graph::NodeId begin = 0;
  double work = 0;
  double heaviest = 0;     ///< of its nodes
  std::int64_t bytes = 0;  ///< that cross where it begins
};

/// The average work of the layers that are not an operator's own because it is heavier.
double average_work(const std::vector<Segment>& segments, int layers) {
  double rest = 0;
  std::vector<double> heaviest;
  for (const Segment& segment : segments) {
    rest += segment.work;
    heaviest.push_back(segment.heaviest);
  }
  std::ranges::sort(heaviest, std::greater<>());
  double average = rest / layers;
  for (int heavy = 0; heavy + 1 < layers && heaviest[heavy] > average; ++heavy) {
    rest -= heaviest[heavy];
    average = rest / (layers - heavy - 1);
  }
  return average;
}

/// What is least in the best clustering.
struct Quality {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  ///< between the layers
  double unevenness = 0;                                          ///< sum of squares of their work
  friend auto operator<=>(const Quality&, const Quality&) = default;
};

/// The segments with which so many layers begin, and their number, by dynamic programming over the
/// segments behind which layers end; nothing where no layers are so even.
std::optional<std::vector<int>> cluster(const std::vector<Segment>& segments, int layers,
                                        double delta) {
  const auto count = static_cast<int>(segments.size());
  const double average = average_work(segments, layers);
  std::vector<double> sums{0};  // of the work before each segment
  for (const Segment& segment : segments) sums.push_back(sums.back() + segment.work);
  std::vector<Quality> best(count + 1);
  std::vector<std::vector<int>> begins(layers, std::vector<int>(count + 1, -1));
  best[0] = {0, 0};
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<Quality> longer(count + 1);
    // The last layer ends at the end, and every layer behind this one has a node.
    const int behind = layers - layer - 1;
    for (int end = behind == 0 ? count : layer + 1; end <= count - behind; ++end) {
      double heaviest = 0;
      for (int begin = end - 1; begin >= layer; --begin) {
        heaviest = std::max(heaviest, segments[begin].heaviest);
        const double sum = sums[end] - sums[begin];
        const bool is_heavy = heaviest > average;
        // What is lighter than this is no longer, whatever else is in it.
        if (is_heavy ? sum - heaviest > delta * average : sum > (1 + delta) * average) break;
        if (!is_heavy && sum < (1 - delta) * average) continue;
        const Quality& before = best[begin];
        if (before == Quality()) continue;
        const Quality with{before.bytes + segments[begin].bytes, before.unevenness + sum * sum};
        if (with < longer[end]) {
          longer[end] = with;
          begins[layer][end] = begin;
        }
      }
    }
    best = std::move(longer);
  }
  if (best.back() == Quality()) return std::nullopt;
  std::vector<int> cuts(layers + 1, count);
  for (int layer = layers - 1; layer >= 0; --layer) cuts[layer] = begins[layer][cuts[layer + 1]];
  return cuts;
}

std::vector<std::int64_t> bytes_by_cut(const graph::Graph& graph,
                                       const graph::StageCutter& cutter) {
  std::vector<std::int64_t> bytes(graph.nodes.size() + 1, 0);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    for (const graph::ValueId id : cutter.crossing(static_cast<graph::NodeId>(cut))) {
      const graph::Value& value = graph.value(id);
      bytes[cut] += graph::bytes_of(value.type, graph::num_elements(value.shape));
    }
  }
  return bytes;
}

/// Nodes between which fewer bytes cross than elsewhere within a distance in work; of equals the
/// first. By what is near alone, so that repeated layers are cut alike.
std::vector<graph::NodeId> narrow_places(const std::vector<std::int64_t>& bytes,
                                         const std::vector<double>& work, double distance) {
  const auto nodes = static_cast<int>(work.size());
  std::vector<double> sums{0};
  for (const double each : work) sums.push_back(sums.back() + each);
  std::vector<graph::NodeId> places{0};
  for (int n = 1; n < nodes; ++n) {
    bool is_narrow = true;
    for (int m = n - 1; is_narrow && m > 0 && sums[n] - sums[m] <= distance; --m)
      is_narrow = bytes[m] > bytes[n];
    for (int m = n + 1; is_narrow && m < nodes && sums[m] - sums[n] <= distance; ++m)
      is_narrow = bytes[m] >= bytes[n];
    if (is_narrow) places.push_back(n);
  }
  return places;
}

std::vector<Segment> segments_of(const std::vector<std::int64_t>& bytes,
                                 const std::vector<double>& work, int most) {
  const auto nodes = static_cast<int>(work.size());
  std::vector<graph::NodeId> places(work.size());
  std::iota(places.begin(), places.end(), 0);
  if (nodes > nodes_worth_thinning) {
    const double total = std::reduce(work.begin(), work.end());
    auto narrow = narrow_places(bytes, work, total / most / places_a_layer);
    if (static_cast<int>(narrow.size()) >= 2 * most) places = std::move(narrow);
  }
  std::vector<Segment> segments;
  for (std::size_t k = 0; k < places.size(); ++k) {
    Segment& segment = segments.emplace_back();
    segment.begin = places[k];
    segment.bytes = bytes[places[k]];
    const int end = k + 1 < places.size() ? places[k + 1] : nodes;
    for (int n = places[k]; n < end; ++n) {
      segment.work += work[n];
      segment.heaviest = std::max(segment.heaviest, work[n]);
    }
  }
  return segments;
}

}  // namespace

LayerCuts cluster_layers(const graph::Graph& graph, const graph::StageCutter& cutter,
                         const std::vector<double>& work, int layers) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  require(nodes > 0, "layers are made of nodes");
  if (nodes <= (layers > 0 ? layers : most_layers)) {
    LayerCuts each(nodes + 1);
    std::iota(each.begin(), each.end(), 0);
    return each;
  }
  const int least = layers > 0 ? layers : fewest_layers;
  const int most = layers > 0 ? layers : most_layers;
  const std::vector<Segment> segments = segments_of(bytes_by_cut(graph, cutter), work, most);
  LayerCuts best;
  double best_kinds = std::numeric_limits<double>::infinity();
  for (int count = most; count >= least; --count) {
    int tried = 0;
    for (const double delta : deltas) {
      const auto begins = cluster(segments, count, delta);
      if (!begins) continue;
      LayerCuts cuts;
      for (int layer = 0; layer < count; ++layer) cuts.push_back(segments[(*begins)[layer]].begin);
      cuts.push_back(nodes);
      const double kinds = find_run_classes(graph, cutter, cuts).count / static_cast<double>(count);
      if (kinds * regularity_margin < best_kinds) {
        best_kinds = kinds;
        best = std::move(cuts);
      }
      if (++tried == 2) break;
    }
  }
  require(!best.empty(), "nodes make layers if these may be uneven");
  return best;
}

}  // namespace autopar::search
