// TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble as TreeSums and what follows it.
// What the standard leaves open is as ONNX Runtime has it.

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "graph/contrib/families.h"
#include "graph/contrib/ml_scores.h"
#include "graph/contrib/ml_trees.h"

namespace autopar::graph {
namespace {

using namespace ml;

/// The scores' type: that of X where it is of floats.
DataType score_type(const BodyBuilder& body) {
  return body.type("X") == DataType::float64 ? DataType::float64 : DataType::float32;
}

/// X in the scores' type.
Operand rows_of(BodyBuilder& body) {
  if (score_type(body) == DataType::float32) return float_rows(body);
  check_rows(body);
  return body["X"];
}

std::vector<double> base_values(const BodyBuilder& body) {
  return body.numbers_attribute("base_values_as_tensor", "base_values");
}

Operand row(BodyBuilder& body, const std::vector<double>& values) {
  return body.floats(score_type(body), {std::ssize(values)}, values);
}

Operand number(BodyBuilder& body, double value) { return body.number(value, score_type(body)); }

/// Scores of the trees' votes, averaged where asked and with base values added.
Operand regression(BodyBuilder& body, const std::vector<Tree>& trees, std::int64_t targets,
                   const std::string& aggregate, const std::vector<double>& bases) {
  if (trees.empty()) fail("it has no trees");
  const bool averages = aggregate == "AVERAGE";
  Operand scores =
      tree_sums(trees, rows_of(body), score_type(body), targets, averages ? "SUM" : aggregate);
  if (averages) scores = scores / number(body, static_cast<double>(trees.size()));
  return std::ssize(bases) == targets ? scores + row(body, bases) : scores;
}

template <std::size_t count>
std::string name_at(const std::array<const char*, count>& names, std::int64_t index,
                    std::string_view attribute) {
  if (index < 0 || index >= static_cast<std::int64_t>(count))
    fail("its attribute '{}' is {}, which is not known", attribute, index);
  return names[static_cast<std::size_t>(index)];
}

/// The targets that all leaves of some tree vote for, so that every row has a vote for them.
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
  /// Whether all are for the same class.
  bool is_binary() const { return classes.size() == 1; }

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
      for (const Vote& vote : own) {
        if (vote.target < 0 || vote.target >= classes)
          fail("a leaf votes for target {} of {}", vote.target, classes);
        node.votes.push_back({vote.target + classes, 1});
      }
    }
  return trees;
}

/// Decides between three classes or more: the first of the best among those that have votes. Base
/// values are as good as votes.
Decision decide(BodyBuilder& body, const std::vector<Tree>& trees, const Votes& votes,
                std::int64_t classes, const std::vector<double>& bases) {
  const auto own = static_cast<std::int64_t>(bases.size());
  if (own > classes) fail("it has {} base values for {} classes", own, classes);
  bool all_have_votes = true;
  for (std::int64_t c = own; c < classes; ++c)
    all_have_votes = all_have_votes && votes.always.contains(c);
  const Operand x = rows_of(body);
  const DataType type = score_type(body);
  std::vector<double> all_bases = bases;
  all_bases.resize(static_cast<std::size_t>(classes));
  if (all_have_votes) {
    const Operand scores = tree_sums(trees, x, type, classes, "SUM") + row(body, all_bases);
    return {best_column(scores), scores};
  }
  const Operands sums_and_counts =
      body.split(tree_sums(with_counts(trees, classes), x, type, 2 * classes, "SUM"), 2, 1);
  const Operand scores = sums_and_counts[0] + row(body, all_bases);
  std::vector<double> counted_bases(static_cast<std::size_t>(classes), 0);
  std::fill_n(counted_bases.begin(), own, 1);
  const Operand has_votes =
      body.op("Greater", {sums_and_counts[1] + row(body, counted_bases), number(body, 0)});
  const Operand none = number(body, -std::numeric_limits<double>::infinity());
  return {best_column(body.where(has_votes, scores, none)), scores};
}

/// What is made of two classes' votes in the rows of one kind.
struct TwoScores {
  Operand deciding;
  Operand scores;
};

/// The votes of two classes, [rows, 1] each, and in which rows they have any, where that is needed.
struct TwoVotes {
  Operand first;
  Operand second;
  Operand has_first = {};
  Operand has_second = {};
};

TwoVotes two_votes(BodyBuilder& body, const std::vector<Tree>& trees, bool counts) {
  const Operand x = rows_of(body);
  if (!counts) {
    const Operands sums = body.split(tree_sums(trees, x, score_type(body), 2, "SUM"), 2, 1);
    return {sums[0], sums[1]};
  }
  const Operands sums =
      body.split(tree_sums(with_counts(trees, 2), x, score_type(body), 4, "SUM"), 4, 1);
  const Operand zero = number(body, 0);
  return {sums[0], sums[1], body.op("Greater", {sums[2], zero}),
          body.op("Greater", {sums[3], zero})};
}

/// Scores of rows with votes for the second class.
TwoScores scores_of_pair(BodyBuilder& body, const TwoVotes& votes, bool is_first_always,
                         const std::vector<double>& bases) {
  Operand first = votes.first;
  Operand second = votes.second;
  if (bases.size() == 2) {
    second = votes.first + number(body, bases[1]);
    first = body.op("Neg", {second});
  } else if (bases.size() == 1) {
    first = first + number(body, bases[0]);
  }
  if (!bases.empty() && !is_first_always)
    first = body.where(votes.has_first, first, number(body, 0));
  return {second, body.concat({first, second}, 1)};
}

/// Scores of all other rows.
TwoScores scores_of_single(BodyBuilder& body, const TwoVotes& votes,
                           const std::vector<double>& bases) {
  const Operand deciding = bases.empty() ? votes.first : votes.first + number(body, bases[0]);
  return {deciding, bases.size() == 2 ? body.op("Pad", {deciding, Ints{0, 0, 0, 1}}) : deciding};
}

/// Whether the second of two classes is it, [rows], and the scores, as ONNX Runtime makes them: the
/// standard does not say how votes for one class alone and base values, one or two, go together. A
/// row with votes for the second class has a pair of scores, of which the second decides. Any other
/// row has a single one, of its votes for the first class, which decides; both classes' scores are
/// made of that, unless there are two base values. A class without votes has 0, whatever its base
/// value is.
Decision decide_of_two(BodyBuilder& body, const std::vector<Tree>& trees, const Votes& votes,
                       const std::vector<double>& bases, const std::string& transform) {
  const bool may_be_pair = votes.classes.contains(1);
  const bool may_be_single = !votes.always.contains(1);
  const bool is_first_always = votes.always.contains(0);
  const bool is_positive = votes.is_binary() && !votes.may_be_negative;
  if (bases.size() > 2) fail("it has {} base values for two classes", bases.size());
  if (!votes.is_binary() && may_be_single && bases.size() == 1)
    fail(
        "it has one base value, and not all leaves vote for the second of its two classes: such "
        "rows have no second score");
  const bool counts = may_be_pair && (may_be_single || (!bases.empty() && !is_first_always));
  const TwoVotes made = two_votes(body, trees, counts);
  TwoScores pair;
  TwoScores single;
  if (may_be_pair) pair = scores_of_pair(body, made, is_first_always, bases);
  if (may_be_single) single = scores_of_single(body, made, bases);
  const auto joined = [&](const Operand& of_pair, const Operand& of_single) {
    if (may_be_pair && may_be_single) return body.where(made.has_second, of_pair, of_single);
    return may_be_pair ? of_pair : of_single;
  };
  const Operand is_second =
      body.op("Squeeze", {body.op("Greater", {joined(pair.deciding, single.deciding),
                                              number(body, is_positive ? 0.5 : 0)}),
                          Ints{1}});
  const DataType type = score_type(body);
  if (bases.size() == 2)
    return {is_second, transformed(joined(pair.scores, single.scores), transform, type, 2)};
  if (may_be_pair) pair.scores = transformed(pair.scores, transform, type, 2);
  if (may_be_single) single.scores = both_scores(single.scores, transform, !is_positive, type);
  return {is_second, joined(pair.scores, single.scores)};
}

void tree_ensemble_regressor(BodyBuilder& body) {
  const std::int64_t targets = body.int_attribute("n_targets", 1);
  const Operand scores =
      regression(body, listed_trees(body, "target"), targets,
                 body.string_attribute("aggregate_function", "SUM"), base_values(body));
  const Operand y = transformed(scores, body.string_attribute("post_transform", "NONE"),
                                score_type(body), targets);
  body.output("Y", body.cast(y, DataType::float32));
}

void tree_ensemble(BodyBuilder& body) {
  constexpr std::array<const char*, 4> aggregates = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr std::array<const char*, 5> transforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                     "PROBIT"};
  const std::int64_t targets = body.int_attribute("n_targets", 1);
  const Operand scores = regression(
      body, indexed_trees(body), targets,
      name_at(aggregates, body.int_attribute("aggregate_function", 1), "aggregate_function"), {});
  const std::string transform =
      name_at(transforms, body.int_attribute("post_transform", 0), "post_transform");
  body.output("Y",
              body.cast(transformed(scores, transform, score_type(body), targets), body.type("X")));
}

void tree_ensemble_classifier(BodyBuilder& body) {
  const Ints labels = class_labels(body, "classlabels_int64s");
  const auto classes = std::ssize(labels);
  if (classes < 2) fail("it has {} classes, which is not supported", classes);
  const std::vector<Tree> trees = listed_trees(body, "class");
  if (trees.empty()) fail("it has no trees");
  const Votes votes(trees);
  const std::vector<double> bases = base_values(body);
  const std::string transform = body.string_attribute("post_transform", "NONE");
  Operand scores;
  if (classes == 2) {
    const Decision made = decide_of_two(body, trees, votes, bases, transform);
    // Where both classes have votes, ONNX Runtime answers with 0 and 1, whatever the labels are.
    body.output("Y", labels_at(votes.is_binary() ? labels : Ints{0, 1},
                               body.cast(made.best, DataType::int64)));
    scores = made.scores;
  } else {
    const Decision made = decide(body, trees, votes, classes, bases);
    body.output("Y", labels_at(labels, made.best));
    scores = transformed(made.scores, transform, score_type(body), classes);
  }
  body.output("Z", body.cast(scores, DataType::float32));
}

constexpr ContribOperator operators[] = {
    {ml_domain, "TreeEnsemble", "X", "Y", "", tree_ensemble},
    {ml_domain, "TreeEnsembleClassifier", "X", "Y Z", "", tree_ensemble_classifier},
    {ml_domain, "TreeEnsembleRegressor", "X", "Y", "", tree_ensemble_regressor},
};

}  // namespace

std::span<const ContribOperator> ml_ensemble_operators() { return operators; }

}  // namespace autopar::graph
