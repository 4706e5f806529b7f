#include "graph/contrib/ml_trees.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace autopar::graph::ml {
namespace {

/// The numbers of a list of floats, or of the tensor that may stand in its place.
std::vector<double> numbers(const BodyBuilder& body, const std::string& name,
                            const std::string& tensor_name) {
  if (const auto tensor = body.tensor_attribute(tensor_name)) {
    if (tensor->type() == DataType::float64) {
      const auto values = tensor->values<double>();
      return {values.begin(), values.end()};
    }
    if (tensor->type() != DataType::float32)
      fail("its attribute '{}' is of {}, which is not supported", tensor_name,
           name_of(tensor->type()));
    const auto values = tensor->values<float>();
    return {values.begin(), values.end()};
  }
  const std::vector<float> values = body.floats_attribute(name);
  return {values.begin(), values.end()};
}

TreeMode mode_of(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, TreeMode>, 7> modes = {{
      {"BRANCH_LEQ", TreeMode::less_equal},
      {"BRANCH_LT", TreeMode::less},
      {"BRANCH_GTE", TreeMode::greater_equal},
      {"BRANCH_GT", TreeMode::greater},
      {"BRANCH_EQ", TreeMode::equal},
      {"BRANCH_NEQ", TreeMode::not_equal},
      {"LEAF", TreeMode::leaf},
  }};
  const auto* found = std::ranges::find(modes, std::string_view(name),
                                        &std::pair<std::string_view, TreeMode>::first);
  if (found == modes.end()) fail("it has a node of the mode '{}', which is not known", name);
  return found->second;
}

/// The places of nodes, by the ids of their tree and their own.
using Places = std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::size_t, std::size_t>>;

template <typename Values>
void require_length(const Values& values, std::size_t length, const std::string& name) {
  if (values.size() != length)
    fail("its attribute '{}' has {} elements for {} nodes", name, values.size(), length);
}

/// The child of that id, in the tree at `place`. Children of leaves are not read.
std::size_t child_of(const Places& places, std::size_t place, std::int64_t tree,
                     std::int64_t node) {
  const auto found = places.find({tree, node});
  if (found == places.end() || found->second.first != place)
    fail("node {} of tree {} is not there", node, tree);
  return found->second.second;
}

void add_votes(const BodyBuilder& body, const std::string& votes, const Places& places,
               std::vector<Tree>& trees) {
  const auto tree_ids = body.ints_attribute(votes + "_treeids");
  const auto node_ids = body.ints_attribute(votes + "_nodeids");
  const auto targets = body.ints_attribute(votes + "_ids");
  const auto weights = numbers(body, votes + "_weights", votes + "_weights_as_tensor");
  require_length(node_ids, tree_ids.size(), votes + "_nodeids");
  require_length(targets, tree_ids.size(), votes + "_ids");
  require_length(weights, tree_ids.size(), votes + "_weights");
  for (std::size_t v = 0; v < tree_ids.size(); ++v) {
    const auto place = places.find({tree_ids[v], node_ids[v]});
    if (place == places.end()) fail("node {} of tree {} is not there", node_ids[v], tree_ids[v]);
    trees[place->second.first][place->second.second].votes.push_back({targets[v], weights[v]});
  }
}

/// Reads the nodes that belong to one root.
class IndexedTree {
 public:
  explicit IndexedTree(const BodyBuilder& body)
      : features_(body.ints_attribute("nodes_featureids")),
        firsts_(body.ints_attribute("nodes_truenodeids")),
        seconds_(body.ints_attribute("nodes_falsenodeids")),
        first_is_leaf_(body.ints_attribute("nodes_trueleafs")),
        second_is_leaf_(body.ints_attribute("nodes_falseleafs")),
        missing_(body.ints_attribute("nodes_missing_value_tracks_true")),
        targets_(body.ints_attribute("leaf_targetids")),
        splits_(tensor_numbers(body, "nodes_splits")),
        weights_(tensor_numbers(body, "leaf_weights")) {
    if (const auto modes = body.tensor_attribute("nodes_modes")) modes_ = modes->to_int64s();
    read_members(body);
    for (const auto* list : {&features_, &firsts_, &seconds_, &first_is_leaf_, &second_is_leaf_})
      require_length(*list, modes_.size(), "nodes_*");
    require_length(splits_, modes_.size(), "nodes_splits");
    if (!missing_.empty())
      require_length(missing_, modes_.size(), "nodes_missing_value_tracks_true");
    require_length(weights_, targets_.size(), "leaf_weights");
  }

  Tree read(std::int64_t root) {
    tree_.clear();
    places_.clear();
    place_of(root, false);
    return std::move(tree_);
  }

 private:
  static constexpr std::int64_t membership = 6;

  static std::vector<double> tensor_numbers(const BodyBuilder& body, const std::string& name) {
    const auto tensor = body.tensor_attribute(name);
    if (tensor && tensor->type() == DataType::float16)
      fail("its attribute '{}' is of float16, which is not supported: export float32", name);
    return numbers(body, name, name);
  }

  void read_members(const BodyBuilder& body) {
    if (!body.has_attribute("membership_values")) return;
    members_.emplace_back();
    for (const double value : tensor_numbers(body, "membership_values")) {
      if (std::isnan(value))
        members_.emplace_back();
      else
        members_.back().push_back(value);
    }
  }

  /// The place in the tree of a node or leaf of the attributes.
  std::size_t place_of(std::int64_t index, bool is_leaf) {
    const auto found = places_.find({index, is_leaf});
    if (found != places_.end()) {
      if (found->second == unfinished) fail("node {} comes below itself", index);
      return found->second;
    }
    const auto bound = static_cast<std::int64_t>(is_leaf ? targets_.size() : modes_.size());
    if (index < 0 || index >= bound) fail("node {} is not there", index);
    const auto at = static_cast<std::size_t>(index);
    if (is_leaf) {
      places_[{index, true}] = tree_.size();
      tree_.push_back({.votes = {{targets_[at], weights_[at]}}});
      return tree_.size() - 1;
    }
    places_[{index, false}] = unfinished;
    const std::size_t place = modes_[at] == membership ? add_membership(at) : add_comparison(at);
    places_[{index, false}] = place;
    return place;
  }

  TreeNode comparison(std::size_t at, TreeMode mode, double split) const {
    return {mode, !missing_.empty() && missing_[at] != 0, features_[at], split, 0, 0, {}};
  }

  std::size_t add_comparison(std::size_t at) {
    if (modes_[at] < 0 || modes_[at] > membership)
      fail("it has a node of the mode {}, which is not known", modes_[at]);
    const std::size_t place = tree_.size();
    tree_.push_back(comparison(at, static_cast<TreeMode>(modes_[at]), splits_[at]));
    link(place, at);
    return place;
  }

  /// A comparison with each member; the last one's second branch is that of all.
  std::size_t add_membership(std::size_t at) {
    const auto set = static_cast<std::size_t>(
        std::count(modes_.begin(), modes_.begin() + static_cast<std::ptrdiff_t>(at), membership));
    if (set >= members_.size() || members_[set].empty())
      fail("its attribute 'membership_values' has no values for node {}", at);
    const std::size_t place = tree_.size();
    for (const double member : members_[set])
      tree_.push_back(comparison(at, TreeMode::equal, member));
    const std::size_t last = tree_.size() - 1;
    link(last, at);
    for (std::size_t n = place; n < last; ++n) {
      tree_[n].first = tree_[last].first;
      tree_[n].second = n + 1;
    }
    return place;
  }

  void link(std::size_t place, std::size_t at) {
    const std::size_t first = place_of(firsts_[at], first_is_leaf_[at] != 0);
    const std::size_t second = place_of(seconds_[at], second_is_leaf_[at] != 0);
    tree_[place].first = first;
    tree_[place].second = second;
  }

  static constexpr auto unfinished = static_cast<std::size_t>(-1);

  std::vector<std::int64_t> features_;
  std::vector<std::int64_t> firsts_;
  std::vector<std::int64_t> seconds_;
  std::vector<std::int64_t> first_is_leaf_;
  std::vector<std::int64_t> second_is_leaf_;
  std::vector<std::int64_t> missing_;
  std::vector<std::int64_t> targets_;
  std::vector<std::int64_t> modes_;
  std::vector<double> splits_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> members_;  ///< of each test for membership, in order
  Tree tree_;
  std::map<std::pair<std::int64_t, bool>, std::size_t> places_;
};

/// The tables of TreeSums, a row a tree.
struct Tables {
  std::size_t nodes = 1;  ///< of the largest tree
  std::size_t votes = 1;
  std::vector<std::int32_t> features;
  std::vector<double> splits;
  std::vector<std::uint8_t> modes;
  std::vector<std::int32_t> branches;
  std::vector<std::int32_t> targets;
  std::vector<double> weights;

  explicit Tables(const std::vector<Tree>& trees) {
    for (const Tree& tree : trees) {
      nodes = std::max(nodes, tree.size());
      std::size_t own = 0;
      for (const TreeNode& node : tree) own += node.votes.size();
      votes = std::max(votes, own);
    }
    const std::size_t all = trees.size() * nodes;
    features.resize(all);
    splits.resize(all);
    modes.resize(all, static_cast<std::uint8_t>(TreeMode::leaf));
    branches.resize(2 * all);
    targets.resize(trees.size() * votes);
    weights.resize(trees.size() * votes);
    for (std::size_t t = 0; t < trees.size(); ++t) fill(trees[t], t * nodes, t * votes);
  }

 private:
  void fill(const Tree& tree, std::size_t first_node, std::size_t first_vote) {
    std::size_t vote = 0;
    for (std::size_t n = 0; n < tree.size(); ++n) {
      const TreeNode& node = tree[n];
      const std::size_t at = first_node + n;
      if (node.mode == TreeMode::leaf) {
        branches[2 * at] = static_cast<std::int32_t>(vote);
        branches[2 * at + 1] = static_cast<std::int32_t>(node.votes.size());
        for (const Vote& own : node.votes) {
          targets[first_vote + vote] = static_cast<std::int32_t>(own.target);
          weights[first_vote + vote++] = own.weight;
        }
        continue;
      }
      modes[at] = static_cast<std::uint8_t>(static_cast<int>(node.mode) +
                                            (node.missing_is_true ? missing_is_true : 0));
      features[at] = static_cast<std::int32_t>(node.feature);
      splits[at] = node.split;
      branches[2 * at] = static_cast<std::int32_t>(node.first);
      branches[2 * at + 1] = static_cast<std::int32_t>(node.second);
    }
  }
};

template <typename T>
std::string constant(BodyBuilder& body, DataType type, Shape shape, const std::vector<T>& values) {
  return body.constant(Tensor::of<T>(type, std::move(shape), values));
}

/// Numbers of that type of floats.
std::string floats(BodyBuilder& body, DataType type, const Shape& shape,
                   const std::vector<double>& values) {
  if (type == DataType::float64) return constant(body, type, shape, values);
  const std::vector<float> narrow(values.begin(), values.end());
  return constant(body, type, shape, narrow);
}

void check_range(const std::vector<Tree>& trees, std::int64_t columns, std::int64_t targets) {
  for (const Tree& tree : trees) {
    for (const TreeNode& node : tree) {
      if (node.mode != TreeMode::leaf && (node.feature < 0 || node.feature >= columns))
        fail("a node reads feature {} of {}", node.feature, columns);
      for (const Vote& vote : node.votes)
        if (vote.target < 0 || vote.target >= targets)
          fail("a leaf votes for target {} of {}", vote.target, targets);
    }
  }
}

}  // namespace

std::vector<Tree> listed_trees(const BodyBuilder& body, const std::string& votes) {
  const auto tree_ids = body.ints_attribute("nodes_treeids");
  const auto node_ids = body.ints_attribute("nodes_nodeids");
  const auto features = body.ints_attribute("nodes_featureids");
  const auto firsts = body.ints_attribute("nodes_truenodeids");
  const auto seconds = body.ints_attribute("nodes_falsenodeids");
  const auto missing = body.ints_attribute("nodes_missing_value_tracks_true");
  const auto modes = body.strings_attribute("nodes_modes");
  const auto splits = numbers(body, "nodes_values", "nodes_values_as_tensor");
  const std::size_t count = modes.size();
  for (const auto* list : {&tree_ids, &node_ids, &features, &firsts, &seconds})
    require_length(*list, count, "nodes_*");
  require_length(splits, count, "nodes_values");
  if (!missing.empty()) require_length(missing, count, "nodes_missing_value_tracks_true");

  std::vector<Tree> trees;
  Places places;
  for (std::size_t n = 0; n < count; ++n) {
    if (n == 0 || tree_ids[n] != tree_ids[n - 1]) trees.emplace_back();
    if (!places.try_emplace({tree_ids[n], node_ids[n]}, trees.size() - 1, trees.back().size())
             .second)
      fail("node {} of tree {} is there twice", node_ids[n], tree_ids[n]);
    trees.back().push_back(
        {mode_of(modes[n]), !missing.empty() && missing[n] != 0, features[n], splits[n], 0, 0, {}});
  }
  for (std::size_t n = 0; n < count; ++n) {
    const auto [tree, place] = places.at({tree_ids[n], node_ids[n]});
    TreeNode& node = trees[tree][place];
    if (node.mode == TreeMode::leaf) continue;
    node.first = child_of(places, tree, tree_ids[n], firsts[n]);
    node.second = child_of(places, tree, tree_ids[n], seconds[n]);
  }
  add_votes(body, votes, places, trees);
  return trees;
}

std::vector<Tree> indexed_trees(const BodyBuilder& body) {
  std::vector<Tree> trees;
  IndexedTree reader(body);
  for (const std::int64_t root : body.ints_attribute("tree_roots"))
    trees.push_back(reader.read(root));
  return trees;
}

void add_tree_sums(BodyBuilder& body, const std::vector<Tree>& trees, const std::string& x,
                   DataType type, std::int64_t targets, const std::string& aggregate,
                   const std::string& scores) {
  check_range(trees, body.shape("X").at(1), targets);
  const Tables tables(trees);
  const auto count = static_cast<std::int64_t>(trees.size());
  const auto nodes = static_cast<std::int64_t>(tables.nodes);
  const auto votes = static_cast<std::int64_t>(tables.votes);
  body.add_in(own_domain, "TreeSums",
              {x, constant(body, DataType::int32, {count, nodes}, tables.features),
               floats(body, type, {count, nodes}, tables.splits),
               constant(body, DataType::uint8, {count, nodes}, tables.modes),
               constant(body, DataType::int32, {count, nodes, 2}, tables.branches),
               constant(body, DataType::int32, {count, votes}, tables.targets),
               floats(body, type, {count, votes}, tables.weights)},
              {scores});
  body.set("n_targets", targets);
  body.set("aggregate", aggregate);
}

}  // namespace autopar::graph::ml
