#include "search/stages/layers.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <variant>

#include "assignment/memo.h"
#include "base/error.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

constexpr int fewest_layers = 32;
constexpr int most_layers = 48;
/// How far a layer's work may be from the average, as a part of it: the first that can be kept to.
constexpr double deltas[] = {0.25, 0.5, 1, 2, 4, 1e18};
/// The ratio of regularities that count as equal.
constexpr double regularity_margin = 1.1;
/// In larger graphs only the narrow places are looked at, about so many for a layer.
constexpr int nodes_worth_thinning = 300;
constexpr int places_a_layer = 16;
/// Constants up to here are looked at by what is in them, of numbers that may be weights less.
constexpr std::int64_t most_looked_at = 4096;
constexpr std::int64_t most_looked_at_floats = 64;

/// A unit that is never cut: the nodes between two places where layers may be.
struct Segment {
  NodeId begin = 0;
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

/// What crosses at each node: more than anything where a state would be parted.
std::vector<std::int64_t> bytes_by_cut(const Graph& graph, const graph::StageCutter& cutter) {
  std::vector<std::int64_t> bytes(graph.nodes.size() + 1, 0);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    if (!cutter.keeps_states(static_cast<NodeId>(cut))) {
      bytes[cut] = std::numeric_limits<std::int64_t>::max();
      continue;
    }
    for (const ValueId id : cutter.crossing(static_cast<NodeId>(cut))) {
      const graph::Value& value = graph.value(id);
      bytes[cut] += graph::bytes_of(value.type, graph::num_elements(value.shape));
    }
  }
  return bytes;
}

/// Nodes between which fewer bytes cross than elsewhere within a distance in work; of equals the
/// first. By what is near alone, so that repeated layers are cut alike.
std::vector<NodeId> narrow_places(const std::vector<std::int64_t>& bytes,
                                  const std::vector<double>& work, double distance) {
  const auto nodes = static_cast<int>(work.size());
  std::vector<double> sums{0};
  for (const double each : work) sums.push_back(sums.back() + each);
  std::vector<NodeId> places{0};
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

/// `places`: where stages may be cut.
std::vector<Segment> segments_of(std::vector<NodeId> places, const std::vector<std::int64_t>& bytes,
                                 const std::vector<double>& work, int most) {
  const auto nodes = static_cast<int>(work.size());
  if (std::ssize(places) > nodes_worth_thinning) {
    const double total = std::reduce(work.begin(), work.end());
    auto narrow = narrow_places(bytes, work, total / most / places_a_layer);
    std::erase_if(narrow, [&](NodeId place) { return !std::ranges::binary_search(places, place); });
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

/// Two hashes of the same numbers, mixed differently.
class Hash {
 public:
  void add(std::uint64_t number) {
    first_ = assignment::combined(first_, number);
    second_ = assignment::combined(second_ * 0x9e3779b97f4a7c15 + 1, number + 0x632be59bd9b4e019);
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char letter : text) add(static_cast<unsigned char>(letter));
  }
  void add(const Hash& other) {
    add(other.first_);
    add(other.second_);
  }
  auto operator<=>(const Hash&) const = default;

 private:
  std::uint64_t first_ = 0x2545f4914f6cdd1d;
  std::uint64_t second_ = 0x94d049bb133111eb;
};

void add_tensor(Hash& hash, const graph::Tensor& tensor, std::int64_t identity) {
  hash.add(static_cast<std::uint64_t>(tensor.type()));
  hash.add(tensor.shape().size());
  for (const std::int64_t extent : tensor.shape()) hash.add(extent);
  const bool is_float = is_floating_point(tensor.type());
  const bool is_small = tensor.size_bytes() <= (is_float ? most_looked_at_floats : most_looked_at);
  if (is_small && tensor.has_data()) {
    const graph::Tensor copy = tensor.contiguous_copy();
    for (const std::byte each : copy.bytes()) hash.add(static_cast<std::uint64_t>(each));
  } else if (!is_float) {
    hash.add(identity);  // it may hold what shapes depend on: equal to itself alone
  }
}

Hash hash_of_attribute(const graph::Attribute& attribute, std::int64_t identity) {
  Hash hash;
  hash.add(attribute.index());
  const auto add = [&](const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, float>)
      hash.add(std::bit_cast<std::uint32_t>(value));
    else
      hash.add(value);
  };
  const auto visit = [&](const auto& value) {
    using Kind = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Kind, graph::Tensor>) {
      add_tensor(hash, value, identity);
    } else if constexpr (std::is_arithmetic_v<Kind> || std::is_same_v<Kind, std::string>) {
      add(value);
    } else {
      hash.add(value.size());
      for (const auto& each : value) add(each);
    }
  };
  std::visit(visit, attribute);
  return hash;
}

Hash hash_of_node(const graph::Node& node, NodeId id) {
  Hash hash;
  hash.add(node.op_type);
  hash.add(node.domain);
  for (const auto& [key, attribute] : node.attributes) {
    hash.add(key);
    hash.add(hash_of_attribute(attribute, -1 - id));
  }
  if (node.body) hash.add(node.name);  // no two loops are taken to be alike
  return hash;
}

Hash hash_of_value(const graph::Value& value, ValueId id) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(value.type));
  hash.add(value.shape.size());
  for (const std::int64_t extent : value.shape) hash.add(extent);
  hash.add(value.constant ? 1 : 0);
  if (value.constant) add_tensor(hash, *value.constant, id);
  return hash;
}

/// A run that grows node by node: values are numbered as graph::StageCutter meets them.
struct Run {
  const std::vector<Hash>& values;  ///< all of the graph's
  Hash hash{};
  int count = 0;
  std::vector<int> numbers = std::vector<int>(values.size(), -1);  ///< -1: not met yet
  std::vector<bool> is_made = std::vector<bool>(values.size(), false);

  void add(ValueId value) {
    if (value == graph::no_value) return hash.add(-1);
    const bool is_new = numbers[value] < 0;
    if (is_new) numbers[value] = count++;
    hash.add(numbers[value]);
    if (is_new) hash.add(values[value]);
  }
  void add(const graph::Node& node, const Hash& hash_of_node) {
    hash.add(hash_of_node);
    hash.add(node.inputs.size());
    for (const ValueId input : node.inputs) add(input);
    for (const ValueId output : node.outputs) {
      add(output);
      if (output != graph::no_value) is_made[output] = true;
    }
  }
};

/// The hash of the nodes [begin, end), with what they receive and send.
Hash hash_of_run(Run run, const Graph& graph, const graph::StageCutter& cutter, NodeId begin,
                 NodeId end) {
  for (const ValueId input : graph.inputs)
    if (run.numbers[input] >= 0) run.add(input);
  run.hash.add(-2);
  for (const ValueId value : cutter.crossing(begin)) run.add(value);
  run.hash.add(-3);
  for (const ValueId output : graph.outputs)
    if (run.is_made[output]) run.add(output);
  run.hash.add(-4);
  for (const graph::State& state : graph.states) {
    if (!run.is_made[graph.outputs[state.output]]) continue;
    run.add(graph.outputs[state.output]);
    run.add(graph.inputs[state.input]);
  }
  if (end == static_cast<NodeId>(graph.nodes.size())) run.hash.add(-5);
  for (const ValueId value : cutter.crossing(end)) run.add(value);
  return run.hash;
}

}  // namespace

std::vector<NodeId> possible_cuts(const Graph& graph, const graph::StageCutter& cutter) {
  std::vector<NodeId> cuts;
  for (NodeId cut = 0; cut < static_cast<NodeId>(graph.nodes.size()); ++cut)
    if (cutter.keeps_states(cut)) cuts.push_back(cut);
  return cuts;
}

LayerCuts cluster_layers(const Graph& graph, const graph::StageCutter& cutter,
                         const std::vector<double>& work, int layers) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  require(nodes > 0, "layers are made of nodes");
  const std::vector<NodeId> places = possible_cuts(graph, cutter);
  const int least = layers > 0 ? layers : fewest_layers;
  const int most = layers > 0 ? layers : most_layers;
  if (std::ssize(places) <= most) {
    LayerCuts each = places;
    each.push_back(nodes);
    return each;
  }
  const std::vector<Segment> segments =
      segments_of(places, bytes_by_cut(graph, cutter), work, most);
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

RunClasses find_run_classes(const Graph& graph, const graph::StageCutter& cutter,
                            const LayerCuts& cuts,
                            std::span<const cost::ValueNames* const> told_apart,
                            bool names_matter) {
  std::vector<Hash> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    nodes.push_back(hash_of_node(graph.nodes[n], static_cast<NodeId>(n)));
    if (names_matter) nodes.back().add(graph.nodes[n].name);
  }
  std::vector<Hash> values;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    values.push_back(hash_of_value(value, static_cast<ValueId>(v)));
    for (const cost::ValueNames* names : told_apart)
      if (names != nullptr) values.back().add(names->contains(value.name) ? 1 : 0);
  }
  RunClasses classes{.layers = static_cast<int>(cuts.size()) - 1};
  classes.classes.resize(cuts.size() * cuts.size(), -1);
  std::map<Hash, int> known;
  for (int begin = 0; begin < classes.layers; ++begin) {
    Run run{.values = values};
    run.hash.add(cuts[begin] == 0 ? 1 : 0);
    for (int end = begin + 1; end <= classes.layers; ++end) {
      for (NodeId n = cuts[end - 1]; n < cuts[end]; ++n) run.add(graph.node(n), nodes[n]);
      const Hash hash = hash_of_run(run, graph, cutter, cuts[begin], cuts[end]);
      const auto entry = known.try_emplace(hash, static_cast<int>(known.size())).first;
      classes.classes[begin * cuts.size() + end] = entry->second;
    }
  }
  classes.count = static_cast<int>(known.size());
  return classes;
}

}  // namespace autopar::search
