// Linear models and support vector machines of ai.onnx.ml, as ONNX Runtime has them: in float32.

#include <algorithm>

#include "graph/contrib/families.h"
#include "graph/contrib/ml_scores.h"

namespace autopar::graph {
namespace {

using namespace ml;

Operand matrix(BodyBuilder& body, const Shape& shape, const std::vector<float>& values) {
  if (!is_possible(shape) || num_elements(shape) != std::ssize(values))
    fail("it has {} coefficients, which are not {}", values.size(), to_string(shape));
  return body.constant(Tensor::of_float(shape, values));
}

/// x times the transposed matrix, plus a row if it is given.
Operand product(const Operand& x, const Operand& matrix, const Operand& row = {}) {
  return x.body->op("Gemm", {x, matrix, row}, {{"transB", 1}});
}

/// Scores, [rows, targets], of rows of coefficients.
Operand linear_scores(BodyBuilder& body, const Operand& x, std::int64_t targets,
                      const std::vector<float>& intercepts) {
  const Operand coefficients =
      matrix(body, {targets, body.shape("X").at(1)}, body.floats_attribute("coefficients"));
  const bool has_intercepts = std::ssize(intercepts) == targets;
  return product(x, coefficients, has_intercepts ? body.floats(intercepts) : Operand());
}

/// What a support vector machine makes of x and each support vector, [rows, vectors].
Operand kernels_of(BodyBuilder& body, const Operand& x, std::int64_t vectors) {
  const std::string kernel = body.string_attribute("kernel_type", "LINEAR");
  std::vector<float> parameters = body.floats_attribute("kernel_params");
  parameters.resize(3);
  const Operand support =
      matrix(body, {vectors, body.shape("X").at(1)}, body.floats_attribute("support_vectors"));
  if (kernel == "RBF") {
    const Operand apart = body.op("Unsqueeze", {x, Ints{1}}) - support;
    const Operand distance = body.op("ReduceSumSquare", {apart, Ints{2}}, {{"keepdims", 0}});
    return body.op("Exp", {distance * body.number(-parameters[0])});
  }
  Operand products = product(x, support);
  if (kernel == "LINEAR") return products;
  const Operand moved = products * body.number(parameters[0]) + body.number(parameters[1]);
  if (kernel == "POLY") return body.op("Pow", {moved, body.number(parameters[2])});
  if (kernel == "SIGMOID") return body.op("Tanh", {moved});
  fail("its attribute 'kernel_type' is '{}', which is not known", kernel);
}

/// Support vectors and what compares each two of their classes.
struct Comparisons {
  std::int64_t vectors = 0;
  std::int64_t pairs = 0;
  std::vector<float> coefficients = {};  ///< [pairs, vectors]
  std::vector<float> votes_above = {};   ///< [pairs, classes]: for whom a score above 0 is a vote
  std::vector<float> votes_below = {};
};

Comparisons comparisons_of(const BodyBuilder& body, std::size_t classes) {
  const Ints counts = body.ints_attribute("vectors_per_class");
  const auto given = body.floats_attribute("coefficients");
  std::vector<std::size_t> bounds{0};  // of each class's vectors
  for (const std::int64_t count : counts) {
    if (count < 0 || count > std::ssize(given))
      fail("it has {} support vectors of a class for {} coefficients", count, given.size());
    bounds.push_back(bounds.back() + static_cast<std::size_t>(count));
  }
  const std::size_t all = bounds.back();
  if (counts.size() != classes || given.size() != (classes - 1) * all)
    fail("it has {} coefficients for {} support vectors of {} classes", given.size(), all, classes);
  constexpr std::size_t most_votes = std::size_t{1} << 26;
  if (classes * classes / 2 * std::max(classes, all) > most_votes)
    fail("{} classes of {} support vectors are more than it takes", classes, all);
  Comparisons of{.vectors = static_cast<std::int64_t>(all)};
  const auto add_vote = [&](std::vector<float>& votes, std::size_t own) {
    votes.resize(votes.size() + classes);
    votes[votes.size() - classes + own] = 1;
  };
  for (std::size_t i = 0; i + 1 < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j, ++of.pairs) {
      std::vector<float> row(all);
      for (std::size_t v = bounds[i]; v < bounds[i + 1]; ++v) row[v] = given[(j - 1) * all + v];
      for (std::size_t v = bounds[j]; v < bounds[j + 1]; ++v) row[v] = given[i * all + v];
      of.coefficients.insert(of.coefficients.end(), row.begin(), row.end());
      add_vote(of.votes_above, i);
      add_vote(of.votes_below, j);
    }
  }
  return of;
}

/// The class for which most pairs vote; scores are [rows, pairs].
Decision decide_by_votes(BodyBuilder& body, const Operand& x, std::int64_t classes) {
  const Comparisons of = comparisons_of(body, static_cast<std::size_t>(classes));
  std::vector<float> rho = body.floats_attribute("rho");
  if (std::ssize(rho) < of.pairs)
    fail("its attribute 'rho' has {} numbers for {} pairs of classes", rho.size(), of.pairs);
  rho.resize(static_cast<std::size_t>(of.pairs));
  const Operand scores =
      product(kernels_of(body, x, of.vectors),
              matrix(body, {of.pairs, of.vectors}, of.coefficients), body.floats(rho));
  const Operand is_above = body.op("Greater", {scores, body.number(0)});
  const Operand above = body.cast(is_above, DataType::float32);
  const Operand below = body.cast(body.op("Not", {is_above}), DataType::float32);
  const auto votes = [&](const Operand& pairs, const std::vector<float>& votes_of_pairs) {
    return body.op("MatMul", {pairs, matrix(body, {of.pairs, classes}, votes_of_pairs)});
  };
  return {best_column(votes(above, of.votes_above) + votes(below, of.votes_below)), scores};
}

/// A linear machine, with a score a class.
Decision decide_by_scores(BodyBuilder& body, const Operand& x, std::int64_t classes) {
  const auto coefficients = body.floats_attribute("coefficients");
  const auto rho = body.floats_attribute("rho");
  if (rho.empty()) fail("its attribute 'rho' is empty");
  const std::vector<float> intercepts(static_cast<std::size_t>(classes), rho.front());
  const Operand scores = linear_scores(body, x, classes, intercepts);
  if (classes != 2) return {best_column(scores), scores};
  const bool is_positive =
      std::ranges::all_of(coefficients, [](float number) { return number >= 0; });
  const Operand most = body.op("ReduceMax", {scores, Ints{1}}, {{"keepdims", 1}});
  const Operand is_sure = body.op(is_positive ? "GreaterOrEqual" : "Greater",
                                  {most, body.number(is_positive ? 0.5 : 0)});
  return {body.where(body.op("Squeeze", {is_sure, Ints{1}}), body.integer(1), best_column(scores)),
          scores};
}

void linear_regressor(BodyBuilder& body) {
  const std::int64_t targets = body.int_attribute("targets", 1);
  const Operand scores =
      linear_scores(body, float_rows(body), targets, body.floats_attribute("intercepts"));
  body.output("Y", transformed(scores, body.string_attribute("post_transform", "NONE"),
                               DataType::float32, targets));
}

void linear_classifier(BodyBuilder& body) {
  const Operand x = float_rows(body);
  const Ints labels = class_labels(body, "classlabels_ints");
  const std::string transform = body.string_attribute("post_transform", "NONE");
  const auto intercepts = body.floats_attribute("intercepts");
  const auto targets = std::ssize(intercepts);
  if (targets == 0) fail("it has no intercepts, of which it needs one a score");
  const Operand scores = linear_scores(body, x, targets, intercepts);
  if (targets != 1) {
    if (std::ssize(labels) < targets)
      fail("it has {} classes for {} scores", labels.size(), targets);
    body.output("Y", labels_at(labels, best_column(scores)));
    return body.output("Z", transformed(scores, transform, DataType::float32, targets));
  }
  const bool has_both = labels.size() == 2;
  const Operand is_second =
      body.op("Squeeze", {body.op("Greater", {scores, body.number(0)}), Ints{1}});
  body.output("Y",
              labels_at(has_both ? labels : Ints{0, 1}, body.cast(is_second, DataType::int64)));
  body.output("Z", has_both ? both_scores(scores, transform, false, DataType::float32)
                            : transformed(scores, transform, DataType::float32, 1));
}

void svm_regressor(BodyBuilder& body) {
  const Operand x = float_rows(body);
  const std::int64_t vectors = body.int_attribute("n_supports", 0);
  const auto rho = body.floats_attribute("rho");
  if (rho.empty()) fail("its attribute 'rho' is empty");
  const Operand scores =
      vectors > 0 ? product(kernels_of(body, x, vectors),
                            matrix(body, {1, vectors}, body.floats_attribute("coefficients")),
                            body.floats({rho.front()}))
                  : linear_scores(body, x, 1, {rho.front()});
  if (body.int_attribute("one_class", 0) == 0) return body.output("Y", scores);
  body.output("Y", body.where(body.op("Greater", {scores, body.number(0)}), body.number(1),
                              body.number(-1)));
}

void svm_classifier(BodyBuilder& body) {
  const Operand x = float_rows(body);
  const Ints labels = class_labels(body, "classlabels_ints");
  const auto classes = std::ssize(labels);
  if (classes < 2) fail("it has {} classes, which is not supported", classes);
  if (!body.floats_attribute("prob_a").empty())
    fail(
        "its probabilities are found by iteration, which is not supported: fit the model with "
        "probability=False");
  const std::string transform = body.string_attribute("post_transform", "NONE");
  const bool is_linear = body.ints_attribute("vectors_per_class").empty();
  const auto [best, scores] =
      is_linear ? decide_by_scores(body, x, classes) : decide_by_votes(body, x, classes);
  body.output("Y", labels_at(labels, best));
  const std::int64_t columns = is_linear ? classes : classes * (classes - 1) / 2;
  body.output("Z", columns == 1
                       ? both_scores(scores, transform, transform == "NONE", DataType::float32)
                       : transformed(scores, transform, DataType::float32, columns));
}

constexpr ContribOperator operators[] = {
    {ml_domain, "LinearClassifier", "X", "Y Z", "", linear_classifier},
    {ml_domain, "LinearRegressor", "X", "Y", "", linear_regressor},
    {ml_domain, "SVMClassifier", "X", "Y Z", "", svm_classifier},
    {ml_domain, "SVMRegressor", "X", "Y", "", svm_regressor},
};

}  // namespace

std::span<const ContribOperator> ml_linear_operators() { return operators; }

}  // namespace autopar::graph
