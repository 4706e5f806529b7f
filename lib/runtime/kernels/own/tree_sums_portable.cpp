// TreeSums (graph/own_operators.h). An item is a row, which goes down all trees.

#include <cmath>

#include "graph/own_operators.h"
#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/own/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

enum class VoteAggregate { sum, least, most };

/// What a node of a tree asks of an element.
template <typename T>
AUTOPAR_ELEMENTWISE bool goes_to_first(int mode, T x, T split) {
  using graph::TreeMode;
  if ((mode & graph::missing_is_true) != 0 && x != x) return true;
  switch (static_cast<TreeMode>(mode & (graph::missing_is_true - 1))) {
    case TreeMode::less_equal:
      return x <= split;
    case TreeMode::less:
      return x < split;
    case TreeMode::greater_equal:
      return x >= split;
    case TreeMode::greater:
      return x > split;
    case TreeMode::equal:
      return x == split;
    default:
      return x != split;
  }
}

template <typename T>
class TreeItems {
 public:
  explicit TreeItems(const KernelRequest& request)
      : rows_(request.inputs.at(0).shape.at(0)),
        columns_(request.inputs.at(0).shape.at(1)),
        trees_(request.inputs.at(1).shape.at(0)),
        nodes_(request.inputs.at(1).shape.at(1)),
        votes_(request.inputs.at(5).shape.at(1)),
        targets_(request.outputs.at(0).shape.at(1)),
        aggregate_(aggregate_of(request)) {
    check_tables(request);
  }

  void bind(const KernelIo& io) {
    x_ = io.inputs[0].as<const T>();
    features_ = io.inputs[1].as<const std::int32_t>();
    splits_ = io.inputs[2].as<const T>();
    modes_ = io.inputs[3].as<const std::uint8_t>();
    branches_ = io.inputs[4].as<const std::int32_t>();
    targets_of_votes_ = io.inputs[5].as<const std::int32_t>();
    weights_ = io.inputs[6].as<const T>();
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return rows_; }
  /// Trees are about as deep as 16.
  std::int64_t item_work() const { return 16 * trees_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    T* out = out_ + row * targets_;
    // NaN stands for no vote yet.
    const T none = aggregate_ == VoteAggregate::sum ? T(0) : T(NAN);
    for (std::int64_t target = 0; target < targets_; ++target) out[target] = none;
    for (std::int64_t tree = 0; tree < trees_; ++tree) {
      const std::int64_t leaf = leaf_of(x_ + row * columns_, tree);
      if (!is_leaf(leaf)) continue;
      for (std::int64_t v = 0; v < branches_[2 * leaf + 1]; ++v)
        count(tree, branches_[2 * leaf] + v, out);
    }
    for (std::int64_t target = 0; target < targets_; ++target)
      if (out[target] != out[target] && aggregate_ != VoteAggregate::sum) out[target] = T(0);
  }

 private:
  static VoteAggregate aggregate_of(const KernelRequest& request) {
    const std::string name = request.node.string_attribute("aggregate", "SUM");
    if (name != "SUM" && name != "MIN" && name != "MAX")
      fail("node '{}': TreeSums has the aggregate '{}'", request.node.name, name);
    return name == "SUM"   ? VoteAggregate::sum
           : name == "MIN" ? VoteAggregate::least
                           : VoteAggregate::most;
  }

  static void check_tables(const KernelRequest& request) {
    const Shape& nodes = request.inputs[1].shape;
    const auto has = [&](std::size_t input, DataType type, const Shape& shape) {
      return request.inputs.at(input).type == type && request.inputs[input].shape == shape;
    };
    const bool fits = nodes[1] > 0 && has(1, DataType::int32, nodes) &&
                      has(2, data_type_of<T>, nodes) && has(3, DataType::uint8, nodes) &&
                      has(4, DataType::int32, {nodes[0], nodes[1], 2}) &&
                      has(5, DataType::int32, {nodes[0], request.inputs[5].shape[1]}) &&
                      has(6, data_type_of<T>, request.inputs[5].shape);
    if (!fits)
      fail("node '{}': the tables of TreeSums do not fit together, or are not of {}",
           request.node.name, name_of(data_type_of<T>));
  }

  AUTOPAR_ELEMENTWISE static bool is_within(std::int64_t i, std::int64_t count) {
    return i >= 0 && i < count;
  }

  /// What a file says may be wrong: a path that leaves the tree, or never ends, ends at no leaf.
  AUTOPAR_ELEMENTWISE std::int64_t leaf_of(const T* x, std::int64_t tree) const {
    const std::int64_t root = tree * nodes_;
    std::int64_t node = root;
    for (std::int64_t step = 0; step < nodes_ && !is_leaf(node); ++step) {
      if (!is_within(features_[node], columns_)) return node;
      const bool is_first = goes_to_first(modes_[node], x[features_[node]], splits_[node]);
      const std::int64_t next = branches_[2 * node + (is_first ? 0 : 1)];
      if (!is_within(next, nodes_)) return node;
      node = root + next;
    }
    return node;
  }

  AUTOPAR_ELEMENTWISE bool is_leaf(std::int64_t node) const {
    return modes_[node] == static_cast<int>(graph::TreeMode::leaf);
  }

  /// Vote `vote` of a tree.
  AUTOPAR_ELEMENTWISE void count(std::int64_t tree, std::int64_t vote, T* out) const {
    if (!is_within(vote, votes_)) return;
    const std::int64_t at = tree * votes_ + vote;
    if (!is_within(targets_of_votes_[at], targets_)) return;
    const T weight = weights_[at];
    T& score = out[targets_of_votes_[at]];
    if (aggregate_ == VoteAggregate::sum)
      score += weight;
    else if (score != score ||
             (aggregate_ == VoteAggregate::least ? weight < score : weight > score))
      score = weight;
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t trees_;
  std::int64_t nodes_;  ///< of a tree
  std::int64_t votes_;  ///< of a tree's leaves
  std::int64_t targets_;
  VoteAggregate aggregate_;
  const T* x_ = nullptr;
  const std::int32_t* features_ = nullptr;
  const T* splits_ = nullptr;
  const std::uint8_t* modes_ = nullptr;
  const std::int32_t* branches_ = nullptr;
  const std::int32_t* targets_of_votes_ = nullptr;
  const T* weights_ = nullptr;
  T* out_ = nullptr;
};

std::unique_ptr<Kernel> make_tree_sums(const KernelRequest& request) {
  return loops_for_type<TreeItems>(request, request.inputs.at(0).type, Floats{});
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
