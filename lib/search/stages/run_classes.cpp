#include "search/stages/run_classes.h"

#include <bit>
#include <map>
#include <string_view>
#include <utility>
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

std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

/// Two hashes of the same numbers, mixed differently.
class Hash {
 public:
  void add(std::uint64_t number) {
    first_ = assignment::combined(first_, number);
    second_ = assignment::combined(second_ * 0x9e3779b97f4a7c15 + 1, number + 0x632be59bd9b4e019);
  }
  void add_signed(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  void add_text(std::string_view text) {
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
  for (const std::int64_t extent : tensor.shape()) hash.add_signed(extent);
  const bool is_float = is_floating_point(tensor.type());
  const bool is_small = tensor.size_bytes() <= (is_float ? most_looked_at_floats : most_looked_at);
  if (is_small && tensor.has_data()) {
    const graph::Tensor copy = tensor.contiguous_copy();
    for (const std::byte each : copy.bytes()) hash.add(static_cast<std::uint64_t>(each));
  } else if (!is_float) {
    hash.add_signed(identity);  // it may hold what shapes depend on: equal to itself alone
  }
}

template <typename Number>
void add_number(Hash& hash, const Number& number) {
  if constexpr (std::is_same_v<Number, std::string>) {
    hash.add_text(number);
  } else if constexpr (std::is_same_v<Number, float>) {
    hash.add(std::bit_cast<std::uint32_t>(number));
  } else {
    hash.add_signed(number);
  }
}

Hash hash_of_attribute(const graph::Attribute& attribute, std::int64_t identity) {
  Hash hash;
  hash.add(attribute.index());
  const auto visit = [&](const auto& value) {
    using Kind = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Kind, graph::Tensor>) {
      add_tensor(hash, value, identity);
    } else if constexpr (std::is_arithmetic_v<Kind> || std::is_same_v<Kind, std::string>) {
      add_number(hash, value);
    } else {
      hash.add(value.size());
      for (const auto& each : value) add_number(hash, each);
    }
  };
  std::visit(visit, attribute);
  return hash;
}

Hash hash_of_node(const graph::Node& node, NodeId id) {
  Hash hash;
  hash.add_text(node.op_type);
  hash.add_text(node.domain);
  for (const auto& [key, attribute] : node.attributes) {
    hash.add_text(key);
    hash.add(hash_of_attribute(attribute, -1 - id));
  }
  if (node.body) hash.add_text(node.name);  // no two loops are taken to be alike
  return hash;
}

Hash hash_of_value(const graph::Value& value, ValueId id) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(value.type));
  hash.add(value.shape.size());
  for (const std::int64_t extent : value.shape) hash.add_signed(extent);
  hash.add(value.constant ? 1 : 0);
  if (value.constant) add_tensor(hash, *value.constant, id);
  return hash;
}

/// A run that grows node by node: values are numbered as graph::StageCutter meets them.
class Run {
 public:
  Run(const Graph& graph, const graph::StageCutter& cutter, const std::vector<Hash>& nodes,
      const std::vector<Hash>& values, NodeId begin)
      : graph_(graph),
        cutter_(cutter),
        nodes_(nodes),
        values_(values),
        begin_(begin),
        numbers_(graph.values.size(), -1),
        is_made_(graph.values.size(), false) {
    hash_.add(begin == 0 ? 1 : 0);
  }

  void append(NodeId id) {
    const graph::Node& node = graph_.node(id);
    hash_.add(nodes_[id]);
    hash_.add(node.inputs.size());
    for (const ValueId input : node.inputs) add(hash_, numbers_, input);
    for (const ValueId output : node.outputs) {
      add(hash_, numbers_, output);
      if (output != graph::no_value) is_made_[output] = true;
    }
  }

  Hash ending_before(NodeId end) const {
    Hash hash = hash_;
    std::vector<int> numbers = numbers_;
    int count = count_;
    const auto number = [&](ValueId value) {
      const bool is_new = numbers[value] < 0;
      if (is_new) numbers[value] = count++;
      hash.add_signed(numbers[value]);
      if (is_new) hash.add(values_[value]);
    };
    for (const ValueId input : graph_.inputs) {
      if (numbers[input] >= 0) number(input);
    }
    hash.add_signed(-2);
    for (const ValueId value : cutter_.crossing(begin_)) number(value);
    hash.add_signed(-3);
    for (const ValueId output : graph_.outputs) {
      if (is_made_[output]) number(output);
    }
    hash.add_signed(-4);
    if (end < static_cast<NodeId>(graph_.nodes.size())) {
      for (const ValueId value : cutter_.crossing(end)) number(value);
    } else {
      hash.add_signed(-5);
    }
    return hash;
  }

 private:
  void add(Hash& hash, std::vector<int>& numbers, ValueId value) {
    if (value == graph::no_value) return hash.add_signed(-1);
    const bool is_new = numbers[value] < 0;
    if (is_new) numbers[value] = count_++;
    hash.add_signed(numbers[value]);
    if (is_new) hash.add(values_[value]);
  }

  const Graph& graph_;
  const graph::StageCutter& cutter_;
  const std::vector<Hash>& nodes_;
  const std::vector<Hash>& values_;
  const NodeId begin_;
  Hash hash_;
  int count_ = 0;
  std::vector<int> numbers_;  ///< by value; -1 where it is not met yet
  std::vector<bool> is_made_;
};

}  // namespace

RunClasses::RunClasses(const Graph& graph, const graph::StageCutter& cutter, const LayerCuts& cuts,
                       std::span<const cost::ValueNames* const> told_apart, bool names_matter)
    : layers_(static_cast<int>(cuts.size()) - 1), classes_(cuts.size() * cuts.size(), -1) {
  std::vector<Hash> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    nodes.push_back(hash_of_node(graph.nodes[n], static_cast<NodeId>(n)));
  if (names_matter) {
    for (std::size_t n = 0; n < nodes.size(); ++n) nodes[n].add_text(graph.nodes[n].name);
  }
  std::vector<Hash> values;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    values.push_back(hash_of_value(graph.values[v], static_cast<ValueId>(v)));
  for (const cost::ValueNames* names : told_apart)
    for (std::size_t v = 0; names != nullptr && v < values.size(); ++v)
      values[v].add(names->contains(graph.values[v].name) ? 1 : 0);
  std::map<Hash, int> known;
  for (int begin = 0; begin < layers_; ++begin) {
    Run run(graph, cutter, nodes, values, cuts[begin]);
    for (int end = begin + 1; end <= layers_; ++end) {
      for (NodeId n = cuts[at(end) - 1]; n < cuts[end]; ++n) run.append(n);
      const auto [entry, is_new] = known.try_emplace(run.ending_before(cuts[end]), count_);
      if (is_new) ++count_;
      classes_[begin * (layers_ + 1) + end] = entry->second;
    }
  }
}

}  // namespace autopar::search
