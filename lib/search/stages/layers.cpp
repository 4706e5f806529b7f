#include "search/stages/layers.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>
#include <optional>

#include "graph/error.h"
#include "search/stages/run_classes.h"

namespace autopar::search {

namespace {

constexpr int fewest_layers = 32;
constexpr int most_layers = 48;
/// How far a layer's work may be from the average, as a part of it: the first that can be kept to.
constexpr double deltas[] = {0.25, 0.5, 1, 2, 4, 1e18};
/// Of the regularities that count as equal.
constexpr double regularity_margin = 1.1;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// One number of layers, by dynamic programming over the nodes at which layers end.
class Clustering {
 public:
  Clustering(const std::vector<std::int64_t>& crossing_bytes, const std::vector<double>& work,
             int layers)
      : bytes_(crossing_bytes),
        work_(work),
        nodes_(static_cast<int>(work.size())),
        layers_(layers),
        sums_(work.size() + 1, 0) {
    std::partial_sum(work.begin(), work.end(), sums_.begin() + 1);
    set_average();
  }

  /// Nothing where no layers are so even.
  std::optional<LayerCuts> run(double delta) {
    const Entry none{std::numeric_limits<std::int64_t>::max(), 0};
    std::vector<Entry> best(at(nodes_) + 1, none);
    std::vector<std::vector<int>> begins(at(layers_), std::vector<int>(at(nodes_) + 1, -1));
    best[0] = {0, 0};
    for (int layer = 0; layer < layers_; ++layer) {
      std::vector<Entry> longer(at(nodes_) + 1, none);
      // The last layer ends at the end, and every layer behind this one has a node.
      const int behind = layers_ - layer - 1;
      for (int end = behind == 0 ? nodes_ : layer + 1; end <= nodes_ - behind; ++end) {
        double heaviest = 0;
        for (int begin = end - 1; begin >= layer; --begin) {
          heaviest = std::max(heaviest, work_[at(begin)]);
          const double sum = sums_[at(end)] - sums_[at(begin)];
          const bool is_heavy = heaviest > average_;
          // What is lighter than this is no longer, whatever else is in it.
          if (is_heavy ? sum - heaviest > delta * average_ : sum > (1 + delta) * average_) break;
          if (!is_heavy && sum < (1 - delta) * average_) continue;
          const Entry& before = best[at(begin)];
          if (before == none) continue;
          const Entry entry{before.bytes + bytes_[at(begin)], before.unevenness + sum * sum};
          if (entry < longer[at(end)]) {
            longer[at(end)] = entry;
            begins[at(layer)][at(end)] = begin;
          }
        }
      }
      best = std::move(longer);
    }
    if (best.back() == none) return std::nullopt;
    LayerCuts cuts(at(layers_) + 1, nodes_);
    for (int layer = layers_ - 1; layer >= 0; --layer)
      cuts[at(layer)] = begins[at(layer)][at(cuts[at(layer) + 1])];
    return cuts;
  }

 private:
  struct Entry {
    std::int64_t bytes;  ///< between the layers
    double unevenness;   ///< sum of squares of their work
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  /// Of the layers that are not an operator's own because it is heavier than the average.
  void set_average() {
    std::vector<double> heaviest = work_;
    std::ranges::sort(heaviest, std::greater<>());
    double rest = sums_.back();
    average_ = rest / layers_;
    for (int heavy = 0; heavy + 1 < layers_ && heaviest[at(heavy)] > average_; ++heavy) {
      rest -= heaviest[at(heavy)];
      average_ = rest / (layers_ - heavy - 1);
    }
  }

  const std::vector<std::int64_t>& bytes_;  ///< by cut
  const std::vector<double>& work_;
  const int nodes_;
  const int layers_;
  std::vector<double> sums_;  ///< of the work before each node
  double average_ = 0;
};

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

}  // namespace

LayerCuts cluster_layers(const graph::Graph& graph, const graph::StageCutter& cutter,
                         const std::vector<double>& work, int layers) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  require(nodes > 0, "layers are made of nodes");
  if (nodes <= (layers > 0 ? layers : most_layers)) {
    LayerCuts each(at(nodes) + 1);
    std::iota(each.begin(), each.end(), 0);
    return each;
  }
  const std::vector<std::int64_t> bytes = bytes_by_cut(graph, cutter);
  LayerCuts best;
  double best_kinds = std::numeric_limits<double>::infinity();
  const int least = layers > 0 ? layers : fewest_layers;
  const int most = layers > 0 ? layers : most_layers;
  for (int count = most; count >= least; --count) {
    Clustering clustering(bytes, work, count);
    int tried = 0;
    for (const double delta : deltas) {
      const auto cuts = clustering.run(delta);
      if (!cuts) continue;
      const double kinds = RunClasses(graph, cutter, *cuts).count() / static_cast<double>(count);
      if (kinds * regularity_margin < best_kinds) {
        best_kinds = kinds;
        best = *cuts;
      }
      if (++tried == 2) break;
    }
  }
  require(!best.empty(), "nodes make layers if these may be uneven");
  return best;
}

}  // namespace autopar::search
