#include "graph/contrib/ml_scores.h"

#include <numbers>

namespace autopar::graph::ml {
namespace {

/// exp(x - max) over its sum, where elements of almost 0 stay almost 0 and do not count.
Operand softmax_zero(const Operand& x, DataType type) {
  BodyBuilder& body = *x.body;
  const Operand most = body.op("ReduceMax", {x, Ints{1}}, {{"keepdims", 1}});
  const Operand exp = body.op("Exp", {x - most});
  const Operand counts = body.op("Greater", {body.op("Abs", {x}), body.number(0.0000001F, type)});
  const Operand small = x * body.op("Exp", {body.op("Neg", {most})});
  const Operand sum =
      body.op("ReduceSum", {body.where(counts, exp, x - x), Ints{1}}, {{"keepdims", 1}});
  return body.where(counts, exp, small) / sum;
}

/// The inverse of the normal distribution by the approximation that ONNX Runtime has: sqrt(2)
/// erf_inv(2 scores - 1). In float64, since of float32 nothing is left near scores of 1/2.
Operand probit(const Operand& scores, DataType type) {
  BodyBuilder& body = *scores.body;
  const auto number = [&](double value) { return body.number(value, DataType::float64); };
  constexpr double a = 0.147;
  const Operand one = number(1);
  const Operand x = body.cast(scores, DataType::float64) * number(2) - one;
  const Operand log = body.op("Log", {(one - x) * (one + x)});
  const Operand v = log * number(0.5) + number(2 / (std::numbers::pi * a));
  const Operand root = body.op("Sqrt", {v * v - log * number(1 / a)});
  const Operand size = body.op("Sqrt", {root - v});
  const Operand erf_inv = body.where(body.op("Less", {x, number(0)}), body.op("Neg", {size}), size);
  return body.cast(erf_inv * number(std::numbers::sqrt2), type);
}

}  // namespace

Operand transformed(const Operand& scores, const std::string& transform, DataType type,
                    std::int64_t columns) {
  if (transform == "PROBIT") return probit(scores, type);
  if (transform == "NONE" || columns == 1) return scores;
  if (transform == "SOFTMAX_ZERO") return softmax_zero(scores, type);
  if (transform == "LOGISTIC") return scores.body->op("Sigmoid", {scores});
  if (transform == "SOFTMAX") return scores.body->op("Softmax", {scores}, {{"axis", 1}});
  fail("its attribute 'post_transform' is '{}', which is not known", transform);
}

Operand both_scores(const Operand& score, const std::string& transform, bool may_be_negative,
                    DataType type) {
  BodyBuilder& body = *score.body;
  if (transform == "PROBIT") fail("PROBIT of one score for two classes has no second score");
  if (transform == "LOGISTIC")
    return body.concat({body.op("Sigmoid", {body.op("Neg", {score})}), body.op("Sigmoid", {score})},
                       1);
  const Operand other = may_be_negative ? body.op("Neg", {score}) : body.number(1, type) - score;
  return body.concat({other, score}, 1);
}

Operand best_column(const Operand& scores) {
  return scores.body->op("ArgMax", {scores}, {{"axis", 1}, {"keepdims", 0}});
}

Ints class_labels(const BodyBuilder& body, const std::string& integers) {
  if (!body.strings_attribute("classlabels_strings").empty())
    fail(
        "its classes are strings, which are not supported: fit the model on classes that are "
        "integers, or export it with skl2onnx's options={{'nocl': True, 'zipmap': False}}");
  return body.ints_attribute(integers);
}

Operand labels_at(const Ints& labels, const Operand& places) {
  return places.body->op("Gather", {labels, places});
}

Operand float_rows(BodyBuilder& body) {
  check_rows(body);
  return body.cast(body["X"], DataType::float32);
}

void check_rows(const BodyBuilder& body) {
  if (body.shape("X").size() != 2)
    fail("its input {} has not two dimensions, rows and features", to_string(body.shape("X")));
}

}  // namespace autopar::graph::ml
