// TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble as TreeSums and what follows it.
// What the standard leaves open is as ONNX Runtime has it.

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/error.h"
#include "graph/contrib/ml_bodies.h"
#include "graph/contrib/ml_scores.h"
#include "graph/contrib/ml_trees.h"

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
    body.write("average = Div (votes, {})",
               number_of(body, static_cast<double>(trees.size()), type));
    scores = "average";
  }
  if (static_cast<std::int64_t>(bases.size()) == targets)
    body.write("scores = Add ({}, {})", scores, floats(body, type, bases));
  else
    body.write("scores = Identity ({})", scores);
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
  body.write("scores = Add (votes, {})", floats(body, type, all_bases));
  if (all_have_votes) {
    body.add("best = ArgMax <axis = 1, keepdims = 0> (scores)");
    return;
  }
  std::vector<double> counted(static_cast<std::size_t>(classes), 0);
  std::fill_n(counted.begin(), own, 1);
  body.write(
      "all_counts = Add (counts, {}) has_votes = Greater (all_counts, {}) "
      "candidates = Where (has_votes, scores, {}) "
      "best = ArgMax <axis = 1, keepdims = 0> (candidates)",
      floats(body, type, counted), number_of(body, 0, type),
      number_of(body, -std::numeric_limits<double>::infinity(), type));
}

/// Makes labels and scores of two classes' votes as ONNX Runtime does: the standard does not say
/// how votes for one class alone and base values, one or two, go together. A row with votes for the
/// second class has a pair of scores, of which the second decides. Any other row has a single one,
/// of its votes for the first class, which decides; both classes' scores are made of that, unless
/// there are two base values. A class without votes has 0, whatever its base value is.
class TwoClasses {
 public:
  TwoClasses(BodyBuilder& body, const Votes& votes, DataType type, const std::vector<double>& bases,
             const std::string& transform)
      : body_(body), votes_(votes), type_(type), bases_(bases), transform_(transform) {
    if (bases_.size() > 2) fail("it has {} base values for two classes", bases_.size());
    if (!is_binary() && may_be_single() && bases_.size() == 1)
      fail(
          "it has one base value, and not all leaves vote for the second of its two classes: such "
          "rows have no second score");
  }

  /// "is_second", [rows]; returns the scores' name.
  std::string add(const std::vector<Tree>& trees) {
    add_votes(trees);
    if (may_be_pair()) add_pairs();
    if (may_be_single()) add_singles();
    join("deciding");
    const double threshold = is_binary() && !votes_.may_be_negative ? 0.5 : 0;
    body_.write(
        "is_second_column = Greater (deciding, {}) "
        "is_second = Squeeze (is_second_column, {})",
        number(threshold), body_.ints({1}));
    if (bases_.size() == 2) {
      join("scores");
      return transformed(body_, "scores", transform_, type_, 2);
    }
    if (may_be_pair())
      rename(transformed(body_, "scores_of_pair", transform_, type_, 2), "answers_of_pair");
    if (may_be_single())
      rename(both_scores(body_, "scores_of_single", transform_,
                         !is_binary() || votes_.may_be_negative, type_),
             "answers_of_single");
    join("answers");
    return "answers";
  }

  /// Whether all votes are for the same class.
  bool is_binary() const { return votes_.classes.size() == 1; }

 private:
  bool may_be_pair() const { return votes_.classes.contains(1); }
  bool may_be_single() const { return !votes_.always.contains(1); }
  std::string number(double value) { return number_of(body_, value, type_); }

  void rename(const std::string& from, const std::string& to) {
    body_.write("{} = Identity ({})", to, from);
  }

  void add_votes(const std::vector<Tree>& trees) {
    const bool counts_second = may_be_pair() && may_be_single();
    const bool counts_first = may_be_pair() && !bases_.empty() && !votes_.always.contains(0);
    if (!counts_second && !counts_first) {
      add_tree_sums(body_, trees, "x", type_, 2, "SUM", "votes");
      body_.add("first_votes, second_votes = Split <axis = 1, num_outputs = 2> (votes)");
      return;
    }
    add_tree_sums(body_, with_counts(trees, 2), "x", type_, 4, "SUM", "votes");
    body_.write(
        "first_votes, second_votes, first_count, second_count = "
        "Split <axis = 1, num_outputs = 4> (votes) "
        "has_first = Greater (first_count, {0}) has_second = Greater (second_count, {0})",
        number(0));
  }

  void add_pairs() {
    std::string first = "first_votes";
    std::string second = "second_votes";
    if (bases_.size() == 2) {
      body_.write("second_based = Add (first_votes, {}) first_based = Neg (second_based)",
                  number(bases_[1]));
      second = "second_based";
    } else if (bases_.size() == 1) {
      body_.write("first_based = Add (first_votes, {})", number(bases_[0]));
    }
    if (!bases_.empty()) first = "first_based";
    if (!bases_.empty() && !votes_.always.contains(0)) {
      body_.write("first_where_voted = Where (has_first, first_based, {})", number(0));
      first = "first_where_voted";
    }
    rename(second, "deciding_of_pair");
    body_.write("scores_of_pair = Concat <axis = 1> ({}, {})", first, second);
  }

  void add_singles() {
    body_.add(bases_.empty()
                  ? "deciding_of_single = Identity (first_votes)"
                  : fmt::format("deciding_of_single = Add (first_votes, {})", number(bases_[0])));
    body_.add(bases_.size() == 2 ? fmt::format("scores_of_single = Pad (deciding_of_single, {})",
                                               body_.ints({0, 0, 0, 1}))
                                 : "scores_of_single = Identity (deciding_of_single)");
  }

  /// `name`, of each row's kind.
  void join(const std::string& name) {
    if (may_be_pair() && may_be_single())
      body_.write("{0} = Where (has_second, {0}_of_pair, {0}_of_single)", name);
    else
      rename(name + (may_be_pair() ? "_of_pair" : "_of_single"), name);
  }

  BodyBuilder& body_;
  const Votes& votes_;
  DataType type_;
  const std::vector<double>& bases_;
  const std::string& transform_;
};

}  // namespace

void tree_ensemble_regressor(BodyBuilder& body) {
  const DataType type = add_rows(body);
  const std::int64_t targets = body.int_attribute("n_targets", 1);
  add_regression(body, listed_trees(body, "target"), type, targets,
                 body.string_attribute("aggregate_function", "SUM"), base_values(body));
  const std::string scores =
      transformed(body, "scores", body.string_attribute("post_transform", "NONE"), type, targets);
  body.write("Y = Cast <to = 1> ({})", scores);
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
  body.write("Y = Cast <to = {}> ({})", static_cast<int>(body.type("X")), scores);
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
    TwoClasses two(body, votes, type, bases, transform);
    scores = two.add(trees);
    // Where both classes have votes, ONNX Runtime answers with 0 and 1, whatever the labels are.
    body.add("best = Cast <to = 7> (is_second)");
    add_labels(body, two.is_binary() ? labels : std::vector<std::int64_t>{0, 1}, "best", "Y");
  } else {
    add_best_class(body, trees, votes, type, classes, bases);
    add_labels(body, labels, "best", "Y");
    scores = transformed(body, "scores", transform, type, classes);
  }
  body.write("Z = Cast <to = 1> ({})", scores);
}

}  // namespace autopar::graph::ml
