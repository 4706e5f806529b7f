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

constexpr std::int64_t membership = 6;

/// The attributes of a TreeEnsemble, whose trees share them.
struct TreeLists {
  std::vector<std::int64_t> modes;
  std::vector<std::int64_t> features;
  std::vector<std::int64_t> firsts;
  std::vector<std::int64_t> seconds;
  std::vector<std::int64_t> first_is_leaf;
  std::vector<std::int64_t> second_is_leaf;
  std::vector<std::int64_t> missing;
  std::vector<double> splits;
  std::vector<std::int64_t> targets;
  std::vector<double> weights;
  std::vector<std::vector<double>> members;  ///< of the nodes that test for membership, in order
};

std::vector<double> tensor_numbers(const BodyBuilder& body, const std::string& name) {
  const auto tensor = body.tensor_attribute(name);
  if (tensor && tensor->type() == DataType::float16)
    fail("its attribute '{}' is of float16, which is not supported: export float32", name);
  return numbers(body, name, name);
}

/// The sets of `membership_values`, which NaN divides.
std::vector<std::vector<double>> members_of(const BodyBuilder& body) {
  std::vector<std::vector<double>> members;
  if (!body.has_attribute("membership_values")) return members;
  members.emplace_back();
  for (const double value : tensor_numbers(body, "membership_values")) {
    if (std::isnan(value))
      members.emplace_back();
    else
      members.back().push_back(value);
  }
  return members;
}

TreeLists tree_lists(const BodyBuilder& body) {
  const auto modes = body.tensor_attribute("nodes_modes");
  TreeLists lists{.modes = modes ? modes->to_int64s() : std::vector<std::int64_t>(),
                  .features = body.ints_attribute("nodes_featureids"),
                  .firsts = body.ints_attribute("nodes_truenodeids"),
                  .seconds = body.ints_attribute("nodes_falsenodeids"),
                  .first_is_leaf = body.ints_attribute("nodes_trueleafs"),
                  .second_is_leaf = body.ints_attribute("nodes_falseleafs"),
                  .missing = body.ints_attribute("nodes_missing_value_tracks_true"),
                  .splits = tensor_numbers(body, "nodes_splits"),
                  .targets = body.ints_attribute("leaf_targetids"),
                  .weights = tensor_numbers(body, "leaf_weights"),
                  .members = members_of(body)};
  for (const auto* list : {&lists.features, &lists.firsts, &lists.seconds, &lists.first_is_leaf,
                           &lists.second_is_leaf})
    require_length(*list, lists.modes.size(), "nodes_*");
  require_length(lists.splits, lists.modes.size(), "nodes_splits");
  if (!lists.missing.empty())
    require_length(lists.missing, lists.modes.size(), "nodes_missing_value_tracks_true");
  require_length(lists.weights, lists.targets.size(), "leaf_weights");
  return lists;
}

/// A tree in the making, and the places in it of nodes and leaves of the lists.
struct GrowingTree {
  static constexpr auto unfinished = static_cast<std::size_t>(-1);

  const TreeLists& lists;
  Tree nodes;
  std::map<std::pair<std::int64_t, bool>, std::size_t> places;
};

std::size_t place_of(std::int64_t index, bool is_leaf, GrowingTree& tree);

TreeNode comparison(const TreeLists& lists, std::size_t at, TreeMode mode, double split) {
  const bool missing_is_true = !lists.missing.empty() && lists.missing[at] != 0;
  return {mode, missing_is_true, lists.features[at], split, 0, 0, {}};
}

/// Gives the node in the tree the branches of the node at `at` in the lists.
void link(std::size_t place, std::size_t at, GrowingTree& tree) {
  const TreeLists& lists = tree.lists;
  const std::size_t first = place_of(lists.firsts[at], lists.first_is_leaf[at] != 0, tree);
  const std::size_t second = place_of(lists.seconds[at], lists.second_is_leaf[at] != 0, tree);
  tree.nodes[place].first = first;
  tree.nodes[place].second = second;
}

std::size_t add_comparison(std::size_t at, GrowingTree& tree) {
  const TreeLists& lists = tree.lists;
  if (lists.modes[at] < 0 || lists.modes[at] > membership)
    fail("it has a node of the mode {}, which is not known", lists.modes[at]);
  const std::size_t place = tree.nodes.size();
  const auto mode = static_cast<TreeMode>(lists.modes[at]);
  tree.nodes.push_back(comparison(lists, at, mode, lists.splits[at]));
  link(place, at, tree);
  return place;
}

/// A comparison with each member; the last one's second branch is that of all.
std::size_t add_membership(std::size_t at, GrowingTree& tree) {
  const TreeLists& lists = tree.lists;
  const auto own = lists.modes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto set = static_cast<std::size_t>(std::count(lists.modes.begin(), own, membership));
  if (set >= lists.members.size() || lists.members[set].empty())
    fail("its attribute 'membership_values' has no values for node {}", at);
  const std::size_t place = tree.nodes.size();
  for (const double member : lists.members[set])
    tree.nodes.push_back(comparison(lists, at, TreeMode::equal, member));
  const std::size_t last = tree.nodes.size() - 1;
  link(last, at, tree);
  for (std::size_t n = place; n < last; ++n) {
    tree.nodes[n].first = tree.nodes[last].first;
    tree.nodes[n].second = n + 1;
  }
  return place;
}

/// The place in the tree of a node or leaf of the lists, which is added where it is not there.
std::size_t place_of(std::int64_t index, bool is_leaf, GrowingTree& tree) {
  const TreeLists& lists = tree.lists;
  const auto found = tree.places.find({index, is_leaf});
  if (found != tree.places.end()) {
    if (found->second == GrowingTree::unfinished) fail("node {} comes below itself", index);
    return found->second;
  }
  const auto bound = static_cast<std::int64_t>(is_leaf ? lists.targets.size() : lists.modes.size());
  if (index < 0 || index >= bound) fail("node {} is not there", index);
  const auto at = static_cast<std::size_t>(index);
  if (is_leaf) {
    tree.places[{index, true}] = tree.nodes.size();
    tree.nodes.push_back({.votes = {{lists.targets[at], lists.weights[at]}}});
    return tree.nodes.size() - 1;
  }
  tree.places[{index, false}] = GrowingTree::unfinished;
  const std::size_t place =
      lists.modes[at] == membership ? add_membership(at, tree) : add_comparison(at, tree);
  tree.places[{index, false}] = place;
  return place;
}

/// The tables of TreeSums, a row a tree.
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
  const TreeLists lists = tree_lists(body);
  std::vector<Tree> trees;
  for (const std::int64_t root : body.ints_attribute("tree_roots")) {
    GrowingTree tree{lists, {}, {}};
    place_of(root, false, tree);
    trees.push_back(std::move(tree.nodes));
  }
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
