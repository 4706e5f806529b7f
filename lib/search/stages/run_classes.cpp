#include "search/stages/run_classes.h"

#include <bit>
#include <map>
#include <string_view>
#include <variant>

#include "assignment/memo.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// Constants up to here are looked at by what is in them, of numbers that may be weights less.
constexpr std::int64_t most_looked_at = 4096;
constexpr std::int64_t most_looked_at_floats = 64;

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
  if (end == static_cast<NodeId>(graph.nodes.size())) run.hash.add(-5);
  for (const ValueId value : cutter.crossing(end)) run.add(value);
  return run.hash;
}

}  // namespace

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
