// Linear models and support vector machines of ai.onnx.ml, as ONNX Runtime has them: in float32.

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/contrib/ml_bodies.h"
#include "graph/contrib/ml_scores.h"

namespace autopar::graph::ml {
namespace {

std::string matrix(BodyBuilder& body, Shape shape, const std::vector<float>& values) {
  if (num_elements(shape) != static_cast<std::int64_t>(values.size()))
    fail("it has {} coefficients, which are not {}", values.size(), to_string(shape));
  return body.constant(Tensor::of_float(std::move(shape), values));
}

/// "scores", [rows, targets], of `x` and rows of coefficients.
void add_linear(BodyBuilder& body, std::int64_t targets, const std::vector<float>& intercepts) {
  const std::string coefficients =
      matrix(body, {targets, body.shape("X").at(1)}, body.floats_attribute("coefficients"));
  if (static_cast<std::int64_t>(intercepts.size()) == targets)
    body.write("scores = Gemm <transB = 1> (x, {}, {})", coefficients, body.floats(intercepts));
  else
    body.write("scores = Gemm <transB = 1> (x, {})", coefficients);
}

/// `is_second`, [rows], of a column of scores: whether they are above the threshold.
void add_is_above(BodyBuilder& body, const std::string& column, float threshold,
                  const std::string& is_second) {
  body.write("{0}_column = Greater ({1}, {2}) {0} = Squeeze ({0}_column, {3})", is_second, column,
             body.number(threshold, DataType::float32), body.ints({1}));
}

/// What a support vector machine makes of x and each support vector, [rows, vectors]: "kernels".
void add_kernels(BodyBuilder& body, std::int64_t vectors) {
  const std::string kernel = body.string_attribute("kernel_type", "LINEAR");
  std::vector<float> parameters = body.floats_attribute("kernel_params");
  parameters.resize(3);
  const auto number = [&](float value) { return body.number(value, DataType::float32); };
  const Shape shape{vectors, body.shape("X").at(1)};
  const std::string support = matrix(body, shape, body.floats_attribute("support_vectors"));
  if (kernel == "RBF") {
    body.write(
        "x_rows = Unsqueeze (x, {}) apart = Sub (x_rows, {}) "
        "distance = ReduceSumSquare <keepdims = 0> (apart, {}) scaled = Mul (distance, {}) "
        "kernels = Exp (scaled)",
        body.ints({1}), support, body.ints({2}), number(-parameters[0]));
    return;
  }
  body.write("products = Gemm <transB = 1> (x, {})", support);
  if (kernel == "LINEAR") {
    body.add("kernels = Identity (products)");
    return;
  }
  body.write("turned = Mul (products, {}) moved = Add (turned, {})", number(parameters[0]),
             number(parameters[1]));
  if (kernel == "POLY")
    body.write("kernels = Pow (moved, {})", number(parameters[2]));
  else if (kernel == "SIGMOID")
    body.add("kernels = Tanh (moved)");
  else
    fail("its attribute 'kernel_type' is '{}', which is not known", kernel);
}

/// Support vectors and what compares each two of their classes.
struct Comparisons {
  std::int64_t vectors = 0;
  std::int64_t pairs = 0;
  std::vector<float> coefficients;  ///< [pairs, vectors]
  std::vector<float> votes_above;   ///< [pairs, classes]: for whom a score above 0 is a vote
  std::vector<float> votes_below;

  Comparisons(const BodyBuilder& body, std::size_t classes) {
    const auto counts = body.ints_attribute("vectors_per_class");
    const auto given = body.floats_attribute("coefficients");
    vectors = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto all = static_cast<std::size_t>(vectors);
    if (counts.size() != classes || given.size() != (classes - 1) * all)
      fail("it has {} coefficients for {} support vectors of {} classes", given.size(), vectors,
           classes);
    std::size_t begin_i = 0;
    for (std::size_t i = 0; i + 1 < classes; ++i) {
      const std::size_t end_i = begin_i + static_cast<std::size_t>(counts[i]);
      std::size_t begin_j = end_i;
      for (std::size_t j = i + 1; j < classes; ++j) {
        const std::size_t end_j = begin_j + static_cast<std::size_t>(counts[j]);
        std::vector<float> row(all);
        for (std::size_t v = begin_i; v < end_i; ++v) row[v] = given[(j - 1) * all + v];
        for (std::size_t v = begin_j; v < end_j; ++v) row[v] = given[i * all + v];
        coefficients.insert(coefficients.end(), row.begin(), row.end());
        add_vote(votes_above, classes, i);
        add_vote(votes_below, classes, j);
        ++pairs;
        begin_j = end_j;
      }
      begin_i = end_i;
    }
  }

 private:
  static void add_vote(std::vector<float>& votes, std::size_t classes, std::size_t own) {
    votes.resize(votes.size() + classes);
    votes[votes.size() - classes + own] = 1;
  }
};

/// "best", [rows]: for which class most pairs vote; "scores", [rows, pairs].
void add_votes(BodyBuilder& body, std::int64_t classes) {
  const Comparisons of(body, static_cast<std::size_t>(classes));
  const std::vector<float> rho = body.floats_attribute("rho");
  if (static_cast<std::int64_t>(rho.size()) < of.pairs)
    fail("its attribute 'rho' has {} numbers for {} pairs of classes", rho.size(), of.pairs);
  add_kernels(body, of.vectors);
  body.write(
      "scores = Gemm <transB = 1> (kernels, {}, {}) is_above = Greater (scores, {}) "
      "above = Cast <to = 1> (is_above) is_below = Not (is_above) below = Cast <to = 1> (is_below) "
      "votes_above = MatMul (above, {}) votes_below = MatMul (below, {}) "
      "votes = Add (votes_above, votes_below) "
      "best = ArgMax <axis = 1, keepdims = 0> (votes)",
      matrix(body, {of.pairs, of.vectors}, of.coefficients),
      body.floats({rho.begin(), rho.begin() + static_cast<std::ptrdiff_t>(of.pairs)}),
      body.number(0, DataType::float32), matrix(body, {of.pairs, classes}, of.votes_above),
      matrix(body, {of.pairs, classes}, of.votes_below));
}

/// "best" and "scores" of a linear machine: a score a class.
void add_linear_machine(BodyBuilder& body, std::int64_t classes) {
  const auto coefficients = body.floats_attribute("coefficients");
  const auto rho = body.floats_attribute("rho");
  if (rho.empty()) fail("its attribute 'rho' is empty");
  add_linear(body, classes, std::vector<float>(static_cast<std::size_t>(classes), rho.front()));
  body.add("best_score = ArgMax <axis = 1, keepdims = 0> (scores)");
  if (classes != 2) {
    body.add("best = Identity (best_score)");
    return;
  }
  const bool is_positive =
      std::ranges::all_of(coefficients, [](float number) { return number >= 0; });
  body.write("most = ReduceMax <keepdims = 1> (scores, {})", body.ints({1}));
  const auto half = is_positive ? "GreaterOrEqual" : "Greater";
  body.write(
      "is_sure_column = {} (most, {}) is_sure = Squeeze (is_sure_column, {}) "
      "best = Where (is_sure, {}, best_score)",
      half, body.number(is_positive ? 0.5F : 0.0F, DataType::float32), body.ints({1}),
      body.integer(1));
}

}  // namespace

void linear_regressor(BodyBuilder& body) {
  add_float_rows(body, "x");
  const std::int64_t targets = body.int_attribute("targets", 1);
  add_linear(body, targets, body.floats_attribute("intercepts"));
  const std::string scores = transformed(
      body, "scores", body.string_attribute("post_transform", "NONE"), DataType::float32, targets);
  body.write("Y = Identity ({})", scores);
}

void linear_classifier(BodyBuilder& body) {
  add_float_rows(body, "x");
  const std::vector<std::int64_t> labels = class_labels(body, "classlabels_ints");
  const std::string transform = body.string_attribute("post_transform", "NONE");
  const auto intercepts = body.floats_attribute("intercepts");
  const auto targets = static_cast<std::int64_t>(intercepts.size());
  if (targets == 0) fail("it has no intercepts, of which it needs one a score");
  add_linear(body, targets, intercepts);
  std::string scores;
  if (targets == 1) {
    const bool has_both = labels.size() == 2;
    add_is_above(body, "scores", 0, "is_second");
    body.add("best = Cast <to = 7> (is_second)");
    add_labels(body, has_both ? labels : std::vector<std::int64_t>{0, 1}, "best", "Y");
    scores = has_both ? both_scores(body, "scores", transform, false, DataType::float32)
                      : transformed(body, "scores", transform, DataType::float32, 1);
  } else {
    if (static_cast<std::int64_t>(labels.size()) < targets)
      fail("it has {} classes for {} scores", labels.size(), targets);
    body.add("best = ArgMax <axis = 1, keepdims = 0> (scores)");
    add_labels(body, labels, "best", "Y");
    scores = transformed(body, "scores", transform, DataType::float32, targets);
  }
  body.write("Z = Identity ({})", scores);
}

void svm_regressor(BodyBuilder& body) {
  add_float_rows(body, "x");
  const std::int64_t vectors = body.int_attribute("n_supports", 0);
  const auto rho = body.floats_attribute("rho");
  if (rho.empty()) fail("its attribute 'rho' is empty");
  if (vectors > 0) {
    add_kernels(body, vectors);
    body.write("scores = Gemm <transB = 1> (kernels, {}, {})",
               matrix(body, {1, vectors}, body.floats_attribute("coefficients")),
               body.floats({rho.front()}));
  } else {
    add_linear(body, 1, {rho.front()});
  }
  if (body.int_attribute("one_class", 0) == 0) {
    body.add("Y = Identity (scores)");
    return;
  }
  body.write("is_inside = Greater (scores, {}) Y = Where (is_inside, {}, {})",
             body.number(0, DataType::float32), body.number(1, DataType::float32),
             body.number(-1, DataType::float32));
}

void svm_classifier(BodyBuilder& body) {
  add_float_rows(body, "x");
  const std::vector<std::int64_t> labels = class_labels(body, "classlabels_ints");
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes < 2) fail("it has {} classes, which is not supported", classes);
  if (!body.floats_attribute("prob_a").empty())
    fail(
        "its probabilities are found by iteration, which is not supported: fit the model with "
        "probability=False");
  const std::string transform = body.string_attribute("post_transform", "NONE");
  const bool is_linear = body.ints_attribute("vectors_per_class").empty();
  if (is_linear)
    add_linear_machine(body, classes);
  else
    add_votes(body, classes);
  add_labels(body, labels, "best", "Y");
  const std::int64_t columns = is_linear ? classes : classes * (classes - 1) / 2;
  const std::string scores =
      columns == 1 ? both_scores(body, "scores", transform, transform == "NONE", DataType::float32)
                   : transformed(body, "scores", transform, DataType::float32, columns);
  body.write("Z = Identity ({})", scores);
}

}  // namespace autopar::graph::ml
