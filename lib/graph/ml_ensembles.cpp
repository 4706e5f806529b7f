// TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble as TreeSums and what follows it.
// What the standard leaves open is as ONNX Runtime has it.

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "graph/error.h"
#include "graph/ml_bodies.h"
#include "graph/ml_scores.h"
#include "graph/ml_trees.h"

namespace autopar::graph::ml {
namespace {

/// The scores' type, that of X where it is of floats, and `x`, which is of that.
DataType add_rows(BodyBuilder& body) {
  if (body.type("X") != DataType::float64) {
    add_float_rows(body, "x");
    return DataType::float32;
  }
  if (body.shape("X").size() != 2)
    fail("its input {} has not two dimensions, rows and features", to_string(body.shape("X")));
  body.add("x = Identity (X)");
  return DataType::float64;
}

std::vector<double> base_values(const BodyBuilder& body) {
  if (const auto tensor = body.tensor_attribute("base_values_as_tensor")) {
    if (tensor->type() == DataType::float64) {
      const auto values = tensor->values<double>();
      return {values.begin(), values.end()};
    }
    if (tensor->type() != DataType::float32)
      fail("its attribute 'base_values_as_tensor' is of {}", name_of(tensor->type()));
    const auto values = tensor->values<float>();
    return {values.begin(), values.end()};
  }
  const std::vector<float> values = body.floats_attribute("base_values");
  return {values.begin(), values.end()};
}

std::string floats(BodyBuilder& body, DataType type, const std::vector<double>& values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  if (type == DataType::float64) return body.constant(Tensor::of<double>(type, shape, values));
  return body.floats({values.begin(), values.end()});
}

/// Scores of the trees' votes, averaged where asked and with base values added: "scores".
void add_regression(BodyBuilder& body, const std::vector<Tree>& trees, DataType type,
                    std::int64_t targets, const std::string& aggregate,
                    const std::vector<double>& bases) {
  if (trees.empty()) fail("it has no trees");
  const bool averages = aggregate == "AVERAGE";
  add_tree_sums(body, trees, "x", type, targets, averages ? "SUM" : aggregate, "votes");
  std::string scores = "votes";
  if (averages) {
    body.add(fmt::format("average = Div (votes, {})",
                         number_of(body, static_cast<double>(trees.size()), type)));
    scores = "average";
  }
  if (static_cast<std::int64_t>(bases.size()) == targets)
    body.add(fmt::format("scores = Add ({}, {})", scores, floats(body, type, bases)));
  else
    body.add(fmt::format("scores = Identity ({})", scores));
}

template <std::size_t count>
std::string name_at(const std::array<const char*, count>& names, std::int64_t index,
                    std::string_view attribute) {
  if (index < 0 || index >= static_cast<std::int64_t>(count))
    fail("its attribute '{}' is {}, which is not known", attribute, index);
  return names[static_cast<std::size_t>(index)];
}

/// For which targets all leaves of some tree vote, so that every row has a vote for them.
std::set<std::int64_t> always_voted(const std::vector<Tree>& trees) {
  std::set<std::int64_t> always;
  for (const Tree& tree : trees) {
    std::map<std::int64_t, std::size_t> leaves_of;
    std::size_t leaves = 0;
    for (const TreeNode& node : tree) {
      if (node.mode != TreeMode::leaf) continue;
      ++leaves;
      std::set<std::int64_t> own;
      for (const Vote& vote : node.votes) own.insert(vote.target);
      for (const std::int64_t target : own) ++leaves_of[target];
    }
    for (const auto& [target, count] : leaves_of)
      if (count == leaves) always.insert(target);
  }
  return always;
}

/// What a classifier's votes are like.
struct Votes {
  std::set<std::int64_t> classes;
  std::set<std::int64_t> always;
  bool may_be_negative = false;

  explicit Votes(const std::vector<Tree>& trees) : always(always_voted(trees)) {
    for (const Tree& tree : trees)
      for (const TreeNode& node : tree)
        for (const Vote& vote : node.votes) {
          classes.insert(vote.target);
          may_be_negative = may_be_negative || vote.weight < 0;
        }
  }
};

/// A vote of 1 for class `classes` + c beside each for class c: how many there are.
std::vector<Tree> with_counts(std::vector<Tree> trees, std::int64_t classes) {
  for (Tree& tree : trees)
    for (TreeNode& node : tree) {
      const std::vector<Vote> own = node.votes;
      for (const Vote& vote : own) node.votes.push_back({vote.target + classes, 1});
    }
  return trees;
}

/// "best", [rows], of three classes or more: the first of the best among those that have votes.
/// Base values are as good as votes.
void add_best_class(BodyBuilder& body, const std::vector<Tree>& trees, const Votes& votes,
                    DataType type, std::int64_t classes, const std::vector<double>& bases) {
  const auto own = static_cast<std::int64_t>(bases.size());
  if (own > classes) fail("it has {} base values for {} classes", own, classes);
  bool all_have_votes = true;
  for (std::int64_t c = own; c < classes; ++c)
    all_have_votes = all_have_votes && votes.always.contains(c);
  std::string sums = "votes";
  if (all_have_votes) {
    add_tree_sums(body, trees, "x", type, classes, "SUM", "votes");
  } else {
    add_tree_sums(body, with_counts(trees, classes), "x", type, 2 * classes, "SUM", "both");
    body.add("votes, counts = Split <axis = 1, num_outputs = 2> (both)");
  }
  std::vector<double> all_bases = bases;
  all_bases.resize(static_cast<std::size_t>(classes));
  body.add(fmt::format("scores = Add (votes, {})", floats(body, type, all_bases)));
  if (all_have_votes) {
    body.add("best = ArgMax <axis = 1, keepdims = 0> (scores)");
    return;
  }
  std::vector<double> counted(static_cast<std::size_t>(classes), 0);
  std::fill_n(counted.begin(), own, 1);
  body.add(
      fmt::format("all_counts = Add (counts, {}) has_votes = Greater (all_counts, {}) "
                  "candidates = Where (has_votes, scores, {}) "
                  "best = ArgMax <axis = 1, keepdims = 0> (candidates)",
                  floats(body, type, counted), number_of(body, 0, type),
                  number_of(body, -std::numeric_limits<double>::infinity(), type)));
}

/// "is_second", [rows]: of two classes, whether the row is of the second one; and both scores, the
/// result's name.
std::string add_two_classes(BodyBuilder& body, const std::vector<Tree>& trees, const Votes& votes,
                            DataType type, const std::vector<double>& bases,
                            const std::string& transform) {
  const bool second_votes = votes.classes.contains(1);
  if (second_votes && !votes.always.contains(1))
    fail("not all leaves vote for the second of its two classes, which is not supported");
  const bool both_vote = second_votes && votes.classes.contains(0);
  if (!bases.empty() && bases.size() != (both_vote ? 2 : 1))
    fail("it has {} base values where {} of its two classes have votes, which is not supported",
         bases.size(), votes.classes.size());
  if (bases.size() == 1 && second_votes)
    fail(
        "it has a base value where the second of its two classes alone has votes, which is not "
        "supported");
  add_tree_sums(body, trees, "x", type, 2, "SUM", "votes");
  body.add("first_votes, second_votes = Split <axis = 1, num_outputs = 2> (votes)");
  // Without votes for the second class the first column has those that decide.
  const bool is_one_score = !second_votes;
  const auto with_base = [&](const std::string& column, std::size_t base) {
    return fmt::format("Add ({}, {})", column, number_of(body, bases[base], type));
  };
  std::string first = "Identity (first_votes)";
  std::string second = "Identity (second_votes)";
  if (bases.size() == 2) {
    second = with_base("first_votes", 1);
    first = "Neg (second_score)";
  } else if (bases.size() == 1) {
    first = with_base("first_votes", 0);
  }
  body.add(fmt::format("second_score = {} first_score = {}", second, first));
  const std::string deciding = second_votes ? "second_score" : "first_score";
  const bool is_binary = votes.classes.size() == 1;
  const double threshold = is_binary && !votes.may_be_negative ? 0.5 : 0;
  body.add(
      fmt::format("is_second_column = Greater ({}, {}) "
                  "is_second = Squeeze (is_second_column, {})",
                  deciding, number_of(body, threshold, type), body.ints({1})));
  if (is_one_score) return both_scores(body, "first_score", transform, votes.may_be_negative, type);
  body.add("two_scores = Concat <axis = 1> (first_score, second_score)");
  return transformed(body, "two_scores", transform, type, 2);
}

}  // namespace

void tree_ensemble_regressor(BodyBuilder& body) {
  const DataType type = add_rows(body);
  const std::int64_t targets = body.int_attribute("n_targets", 1);
  add_regression(body, listed_trees(body, "target"), type, targets,
                 body.string_attribute("aggregate_function", "SUM"), base_values(body));
  const std::string scores =
      transformed(body, "scores", body.string_attribute("post_transform", "NONE"), type, targets);
  body.add(fmt::format("Y = Cast <to = 1> ({})", scores));
}

void tree_ensemble(BodyBuilder& body) {
  constexpr std::array<const char*, 4> aggregates = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr std::array<const char*, 5> transforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                     "PROBIT"};
  const DataType type = add_rows(body);
  const std::int64_t targets = body.int_attribute("n_targets", 1);
  add_regression(
      body, indexed_trees(body), type, targets,
      name_at(aggregates, body.int_attribute("aggregate_function", 1), "aggregate_function"), {});
  const std::string scores =
      transformed(body, "scores",
                  name_at(transforms, body.int_attribute("post_transform", 0), "post_transform"),
                  type, targets);
  body.add(fmt::format("Y = Cast <to = {}> ({})", static_cast<int>(body.type("X")), scores));
}

void tree_ensemble_classifier(BodyBuilder& body) {
  const std::vector<std::int64_t> labels = class_labels(body, "classlabels_int64s");
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes < 2) fail("it has {} classes, which is not supported", classes);
  const DataType type = add_rows(body);
  const std::vector<Tree> trees = listed_trees(body, "class");
  if (trees.empty()) fail("it has no trees");
  const Votes votes(trees);
  const std::vector<double> bases = base_values(body);
  const std::string transform = body.string_attribute("post_transform", "NONE");
  std::string scores;
  if (classes == 2) {
    scores = add_two_classes(body, trees, votes, type, bases, transform);
    // Where both classes have votes, ONNX Runtime answers with 0 and 1, whatever the labels are.
    const bool is_binary = votes.classes.size() == 1;
    body.add("best = Cast <to = 7> (is_second)");
    add_labels(body, is_binary ? labels : std::vector<std::int64_t>{0, 1}, "best", "Y");
  } else {
    add_best_class(body, trees, votes, type, classes, bases);
    add_labels(body, labels, "best", "Y");
    scores = transformed(body, "scores", transform, type, classes);
  }
  body.add(fmt::format("Z = Cast <to = 1> ({})", scores));
}

}  // namespace autopar::graph::ml
