#include "graph/contrib/ml_scores.h"

#include <numbers>

#include "base/error.h"

namespace autopar::graph::ml {
namespace {

/// exp(x - max) over its sum, where elements of almost 0 stay almost 0 and do not count.
std::string softmax_zero(BodyBuilder& body, const std::string& x, DataType type) {
  body.write(
      "zero_most = ReduceMax <keepdims = 1> ({0}, {1}) "
      "zero_below = Sub ({0}, zero_most) zero_exp = Exp (zero_below) "
      "zero_size = Abs ({0}) zero_counts = Greater (zero_size, {2}) "
      "zero_negative = Neg (zero_most) zero_least = Exp (zero_negative) "
      "zero_small = Mul ({0}, zero_least) zero_nothing = Sub ({0}, {0}) "
      "zero_counted = Where (zero_counts, zero_exp, zero_nothing) "
      "zero_sum = ReduceSum <keepdims = 1> (zero_counted, {1}) "
      "zero_value = Where (zero_counts, zero_exp, zero_small) "
      "zero_scores = Div (zero_value, zero_sum)",
      x, body.ints({1}), number_of(body, 0.0000001F, type));
  return "zero_scores";
}

/// The inverse of the normal distribution by the approximation that ONNX Runtime has: sqrt(2)
/// erf_inv(2 x - 1). In float64, since of float32 nothing is left near x = 1/2.
std::string probit(BodyBuilder& body, const std::string& x, DataType type) {
  constexpr double a = 0.147;
  const auto number = [&](double value) { return number_of(body, value, DataType::float64); };
  body.write(
      "probit_in = Cast <to = 11> ({0}) probit_twice = Mul (probit_in, {1}) "
      "probit_x = Sub (probit_twice, {2}) probit_below = Sub ({2}, probit_x) "
      "probit_above = Add ({2}, probit_x) probit_product = Mul (probit_below, probit_above) "
      "probit_log = Log (probit_product) probit_half = Mul (probit_log, {3}) "
      "probit_v = Add (probit_half, {4}) probit_w = Mul (probit_log, {5}) "
      "probit_square = Mul (probit_v, probit_v) probit_under = Sub (probit_square, probit_w) "
      "probit_root = Sqrt (probit_under) probit_rest = Sub (probit_root, probit_v) "
      "probit_size = Sqrt (probit_rest) probit_is_below = Less (probit_x, {6}) "
      "probit_opposite = Neg (probit_size) "
      "probit_erf = Where (probit_is_below, probit_opposite, probit_size) "
      "probit_double = Mul (probit_erf, {7}) probit_scores = Cast <to = {8}> (probit_double)",
      x, number(2), number(1), number(0.5), number(2 / (std::numbers::pi * a)), number(1 / a),
      number(0), number(std::numbers::sqrt2), static_cast<int>(type));
  return "probit_scores";
}

}  // namespace

std::string number_of(BodyBuilder& body, double value, DataType type) {
  if (type == DataType::float64)
    return body.constant(Tensor::of<double>(type, {}, std::span(&value, 1)));
  return body.number(static_cast<float>(value), type);
}

std::string transformed(BodyBuilder& body, const std::string& scores, const std::string& transform,
                        DataType type, std::int64_t columns) {
  if (transform == "PROBIT") return probit(body, scores, type);
  if (transform == "NONE" || columns == 1) return scores;
  if (transform == "SOFTMAX_ZERO") return softmax_zero(body, scores, type);
  if (transform == "LOGISTIC")
    body.write("transformed = Sigmoid ({})", scores);
  else if (transform == "SOFTMAX")
    body.write("transformed = Softmax <axis = 1> ({})", scores);
  else
    fail("its attribute 'post_transform' is '{}', which is not known", transform);
  return "transformed";
}

std::string both_scores(BodyBuilder& body, const std::string& score, const std::string& transform,
                        bool may_be_negative, DataType type) {
  if (transform == "PROBIT") fail("PROBIT of one score for two classes has no second score");
  if (transform == "LOGISTIC")
    body.write(
        "opposite = Neg ({0}) other_score = Sigmoid (opposite) "
        "own_score = Sigmoid ({0})",
        score);
  else if (!may_be_negative)
    body.write("other_score = Sub ({}, {}) own_score = Identity ({})", number_of(body, 1, type),
               score, score);
  else
    body.write("other_score = Neg ({0}) own_score = Identity ({0})", score);
  body.add("both_scores = Concat <axis = 1> (other_score, own_score)");
  return "both_scores";
}

std::vector<std::int64_t> class_labels(const BodyBuilder& body, std::string_view integers) {
  if (!body.strings_attribute("classlabels_strings").empty())
    fail(
        "its classes are strings, which are not supported: fit the model on classes that are "
        "integers, or export it with skl2onnx's options={{'nocl': True, 'zipmap': False}}");
  return body.ints_attribute(integers);
}

void add_labels(BodyBuilder& body, const std::vector<std::int64_t>& labels,
                const std::string& places, const std::string& label) {
  body.write("{} = Gather ({}, {})", label, body.ints(labels), places);
}

void add_float_rows(BodyBuilder& body, const std::string& x) {
  if (body.shape("X").size() != 2)
    fail("its input {} has not two dimensions, rows and features", to_string(body.shape("X")));
  body.write("{} = Cast <to = 1> (X)", x);
}

}  // namespace autopar::graph::ml
