#include "graph/contrib/ml_trees.h"

#include <algorithm>
#include <cmath>

namespace autopar::graph::ml {
namespace {

TreeMode mode_of(const std::string& name) {
  static const std::map<std::string_view, TreeMode> modes = {
      {"BRANCH_LEQ", TreeMode::less_equal},
      {"BRANCH_LT", TreeMode::less},
      {"BRANCH_GTE", TreeMode::greater_equal},
      {"BRANCH_GT", TreeMode::greater},
      {"BRANCH_EQ", TreeMode::equal},
      {"BRANCH_NEQ", TreeMode::not_equal},
      {"LEAF", TreeMode::leaf},
  };
  const auto found = modes.find(name);
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

/// The node of that id in the tree of that id.
std::pair<std::size_t, std::size_t> place_at(const Places& places, std::int64_t tree,
                                             std::int64_t node) {
  const auto found = places.find({tree, node});
  if (found == places.end()) fail("node {} of tree {} is not there", node, tree);
  return found->second;
}

void add_votes(const BodyBuilder& body, const std::string& votes, const Places& places,
               std::vector<Tree>& trees) {
  const Ints tree_ids = body.ints_attribute(votes + "_treeids");
  const Ints node_ids = body.ints_attribute(votes + "_nodeids");
  const Ints targets = body.ints_attribute(votes + "_ids");
  const auto weights = body.numbers_attribute(votes + "_weights_as_tensor", votes + "_weights");
  require_length(node_ids, tree_ids.size(), votes + "_nodeids");
  require_length(targets, tree_ids.size(), votes + "_ids");
  require_length(weights, tree_ids.size(), votes + "_weights");
  for (std::size_t v = 0; v < tree_ids.size(); ++v) {
    const auto [tree, node] = place_at(places, tree_ids[v], node_ids[v]);
    trees[tree][node].votes.push_back({targets[v], weights[v]});
  }
}

constexpr std::int64_t membership = 6;

/// The attributes of a TreeEnsemble, whose trees share them.
struct TreeLists {
  Ints modes;
  Ints features;
  Ints firsts;
  Ints seconds;
  Ints first_is_leaf;
  Ints second_is_leaf;
  Ints missing;
  std::vector<double> splits;
  Ints targets;
  std::vector<double> weights;
  std::vector<std::vector<double>> members;  ///< of the nodes that test for membership, in order
};

std::vector<double> tensor_numbers(const BodyBuilder& body, const std::string& name) {
  const auto tensor = body.tensor_attribute(name);
  if (tensor && tensor->type() == DataType::float16)
    fail("its attribute '{}' is of float16, which is not supported: export float32", name);
  return body.numbers_attribute(name, name);
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
  if (modes && modes->type() != DataType::uint8)
    fail("its attribute 'nodes_modes' is of {}, not uint8", name_of(modes->type()));
  TreeLists lists{.modes = modes ? modes->to_int64s() : Ints(),
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

/// Paths are followed by recursion.
constexpr int most_levels = 2000;

/// A tree in the making, and the places in it of nodes and leaves of the lists.
struct GrowingTree {
  static constexpr auto unfinished = static_cast<std::size_t>(-1);

  const TreeLists& lists;
  Tree nodes;
  std::map<std::pair<std::int64_t, bool>, std::size_t> places;
};

/// What the node at `at` compares with: its split, or each member of its set.
std::vector<double> compared_with(const TreeLists& lists, std::size_t at) {
  if (lists.modes[at] < 0 || lists.modes[at] > membership)
    fail("it has a node of the mode {}, which is not known", lists.modes[at]);
  if (lists.modes[at] != membership) return {lists.splits[at]};
  const auto own = lists.modes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto set = static_cast<std::size_t>(std::count(lists.modes.begin(), own, membership));
  if (set >= lists.members.size() || lists.members[set].empty())
    fail("its attribute 'membership_values' has no values for node {}", at);
  return lists.members[set];
}

/// The place in the tree of a node or leaf of the lists, which is added where it is not there. A
/// test for membership becomes a comparison with each member; the last one's second branch is that
/// of all.
std::size_t place_of(std::int64_t index, bool is_leaf, GrowingTree& tree, int level = 0) {
  const TreeLists& lists = tree.lists;
  if (level > most_levels) fail("it has a tree of more than {} levels", most_levels);
  const auto found = tree.places.find({index, is_leaf});
  if (found != tree.places.end()) {
    if (found->second == GrowingTree::unfinished) fail("node {} comes below itself", index);
    return found->second;
  }
  const auto bound = is_leaf ? std::ssize(lists.targets) : std::ssize(lists.modes);
  if (index < 0 || index >= bound) fail("node {} is not there", index);
  const auto at = static_cast<std::size_t>(index);
  const std::size_t place = tree.nodes.size();
  if (is_leaf) {
    tree.nodes.push_back({.votes = {{lists.targets[at], lists.weights[at]}}});
    return tree.places[{index, true}] = place;
  }
  tree.places[{index, false}] = GrowingTree::unfinished;
  const bool missing_is_true = !lists.missing.empty() && lists.missing[at] != 0;
  const std::vector<double> splits = compared_with(lists, at);
  const auto mode =
      lists.modes[at] == membership ? TreeMode::equal : static_cast<TreeMode>(lists.modes[at]);
  for (const double split : splits)
    tree.nodes.push_back({mode, missing_is_true, lists.features[at], split, 0, 0, {}});
  const std::size_t first =
      place_of(lists.firsts[at], lists.first_is_leaf[at] != 0, tree, level + 1);
  const std::size_t second =
      place_of(lists.seconds[at], lists.second_is_leaf[at] != 0, tree, level + 1);
  const std::size_t last = place + splits.size() - 1;
  for (std::size_t n = place; n <= last; ++n) {
    tree.nodes[n].first = first;
    tree.nodes[n].second = n == last ? second : n + 1;
  }
  return tree.places[{index, false}] = place;
}

/// The tables of TreeSums, a row a tree.
struct Tables {
  std::size_t nodes = 1;  ///< of the largest tree
  std::size_t votes = 1;
  std::vector<std::int32_t> features = {};
  std::vector<double> splits = {};
  std::vector<std::uint8_t> modes = {};
  std::vector<std::int32_t> branches = {};
  std::vector<std::int32_t> targets = {};
  std::vector<double> weights = {};
};

/// What a node and a vote take in all tables.
constexpr std::size_t node_bytes = 21;
constexpr std::size_t vote_bytes = 12;

/// Writes a tree into the row whose nodes and votes begin at these.
void fill_row(const Tree& tree, std::size_t first_node, std::size_t vote, Tables& tables) {
  const std::size_t first_vote = vote;
  for (std::size_t n = 0; n < tree.size(); ++n) {
    const TreeNode& node = tree[n];
    const std::size_t at = first_node + n;
    const bool is_leaf = node.mode == TreeMode::leaf;
    tables.modes[at] = static_cast<std::uint8_t>(
        static_cast<int>(node.mode) + (!is_leaf && node.missing_is_true ? missing_is_true : 0));
    tables.features[at] = is_leaf ? 0 : static_cast<std::int32_t>(node.feature);
    tables.splits[at] = is_leaf ? 0 : node.split;
    tables.branches[2 * at] = static_cast<std::int32_t>(is_leaf ? vote - first_vote : node.first);
    tables.branches[2 * at + 1] =
        static_cast<std::int32_t>(is_leaf ? node.votes.size() : node.second);
    if (!is_leaf) continue;
    for (const Vote& own : node.votes) {
      tables.targets[vote] = static_cast<std::int32_t>(own.target);
      tables.weights[vote++] = own.weight;
    }
  }
}

/// Throws LimitReached where many trees beside a large one would take more than constants may.
Tables tables_of(const BodyBuilder& body, const std::vector<Tree>& trees) {
  Tables tables;
  std::size_t given_bytes = 0;
  for (const Tree& tree : trees) {
    std::size_t votes = 0;
    for (const TreeNode& node : tree) votes += node.votes.size();
    tables.nodes = std::max(tables.nodes, tree.size());
    tables.votes = std::max(tables.votes, votes);
    given_bytes += tree.size() * node_bytes + votes * vote_bytes;
  }
  // What the model itself has does not count.
  const std::size_t bytes = trees.size() * (tables.nodes * node_bytes + tables.votes * vote_bytes);
  body.take_constant(static_cast<std::int64_t>(bytes - given_bytes), DataType::uint8);
  const std::size_t nodes = trees.size() * tables.nodes;
  tables.features.resize(nodes);
  tables.splits.resize(nodes);
  tables.modes.resize(nodes, static_cast<std::uint8_t>(TreeMode::leaf));
  tables.branches.resize(2 * nodes);
  tables.targets.resize(trees.size() * tables.votes);
  tables.weights.resize(trees.size() * tables.votes);
  for (std::size_t t = 0; t < trees.size(); ++t)
    fill_row(trees[t], t * tables.nodes, t * tables.votes, tables);
  return tables;
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
  const auto splits = body.numbers_attribute("nodes_values_as_tensor", "nodes_values");
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
    const auto [own_tree, place] = places.at({tree_ids[n], node_ids[n]});
    const auto child = [&, tree = own_tree](std::int64_t id) {
      const auto [its_tree, its_place] = place_at(places, tree_ids[n], id);
      // Nodes of one id that do not stand together are several trees'.
      if (its_tree != tree) fail("node {} of tree {} is not there", id, tree_ids[n]);
      return its_place;
    };
    TreeNode& node = trees[own_tree][place];
    if (node.mode == TreeMode::leaf) continue;
    node.first = child(firsts[n]);
    node.second = child(seconds[n]);
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

Operand tree_sums(const std::vector<Tree>& trees, const Operand& x, DataType type,
                  std::int64_t targets, const std::string& aggregate) {
  BodyBuilder& body = *x.body;
  check_range(trees, body.shape("X").at(1), targets);
  const Tables tables = tables_of(body, trees);
  const auto count = static_cast<std::int64_t>(trees.size());
  const auto nodes = static_cast<std::int64_t>(tables.nodes);
  const auto votes = static_cast<std::int64_t>(tables.votes);
  const auto places = [&](const Shape& shape, const std::vector<std::int32_t>& values) {
    return body.constant(Tensor::of<std::int32_t>(DataType::int32, shape, values));
  };
  Operand sums = body.op(
      "TreeSums",
      {x, places({count, nodes}, tables.features), body.floats(type, {count, nodes}, tables.splits),
       body.constant(Tensor::of<std::uint8_t>(DataType::uint8, {count, nodes}, tables.modes)),
       places({count, nodes, 2}, tables.branches), places({count, votes}, tables.targets),
       body.floats(type, {count, votes}, tables.weights)},
      {{"n_targets", targets}, {"aggregate", aggregate}});
  body.set_domain(own_domain);
  return sums;
}

}  // namespace autopar::graph::ml
