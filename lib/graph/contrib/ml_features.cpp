// Operators of ai.onnx.ml that prepare features: scaling, imputing, encoding.

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "graph/contrib/ml_bodies.h"
#include "graph/contrib/ml_scores.h"

namespace autopar::graph::ml {
namespace {

int number_of_type(DataType type) { return static_cast<int>(type); }

/// Keys or values of a LabelEncoder: one of its lists of numbers, or a tensor.
std::optional<Tensor> listed(const BodyBuilder& body, const std::string& name) {
  if (!body.strings_attribute(name + "_strings").empty())
    fail(
        "its {} are strings, which are not supported: encode them before they reach the model, "
        "or fit it on integers",
        name);
  if (auto tensor = body.tensor_attribute(name + "_tensor")) return tensor;
  const std::vector<std::int64_t> ints = body.ints_attribute(name + "_int64s");
  if (!ints.empty()) return Tensor::of_int64({static_cast<std::int64_t>(ints.size())}, ints);
  const std::vector<float> floats = body.floats_attribute(name + "_floats");
  if (!floats.empty()) return Tensor::of_float({static_cast<std::int64_t>(floats.size())}, floats);
  return std::nullopt;
}

/// What a LabelEncoder answers where no key matches, [1].
std::string default_value(BodyBuilder& body, DataType type) {
  if (const auto tensor = body.tensor_attribute("default_tensor"))
    return body.constant(tensor->reshaped({1}));
  if (type == DataType::int64) return body.ints({body.int_attribute("default_int64", -1)});
  if (type == DataType::float32) return body.floats({body.float_attribute("default_float", -0.0F)});
  const std::string number = body.floats({type == DataType::float64 ? -0.0F : -1.0F});
  body.write("otherwise = Cast <to = {}> ({})", number_of_type(type), number);
  return "otherwise";
}

}  // namespace

/// Divides each row by its largest element, the sum of absolute values or the root of the sum of
/// squares; a row for which that is 0 stays.
void normalizer(BodyBuilder& body) {
  const std::string norm = body.string_attribute("norm", "MAX");
  const std::string last = body.ints({-1});
  body.add("x = Cast <to = 1> (X)");
  if (norm == "MAX")
    body.write("norm = ReduceMax <keepdims = 1> (x, {})", last);
  else if (norm == "L1")
    body.write("norm = ReduceL1 <keepdims = 1> (x, {})", last);
  else if (norm == "L2")
    body.write("norm = ReduceL2 <keepdims = 1> (x, {})", last);
  else
    fail("its attribute 'norm' is '{}', which is not known", norm);
  body.write(
      "is_zero = Equal (norm, {}) divisor = Where (is_zero, {}, norm) "
      "Y = Div (x, divisor)",
      body.number(0, DataType::float32), body.number(1, DataType::float32));
}

/// One imputed value for all columns, or one a column.
void imputer(BodyBuilder& body) {
  const DataType type = body.type("X");
  const bool is_float = type == DataType::float32 || type == DataType::float64;
  const std::vector<float> floats = body.floats_attribute("imputed_value_floats");
  const std::vector<std::int64_t> ints = body.ints_attribute("imputed_value_int64s");
  std::size_t count = is_float ? floats.size() : ints.size();
  if (count == 0) fail("it has no values of {} to impute", name_of(type));
  const auto columns = static_cast<std::size_t>(body.shape("X").back());
  if (count != columns) count = 1;
  const std::string values =
      is_float ? body.floats({floats.begin(), floats.begin() + static_cast<std::ptrdiff_t>(count)})
               : body.ints({ints.begin(), ints.begin() + static_cast<std::ptrdiff_t>(count)});
  body.write("values = Cast <to = {}> ({})", number_of_type(type), values);
  const float replaced = body.float_attribute("replaced_value_float", 0);
  if (is_float && std::isnan(replaced)) {
    body.add("is_missing = IsNaN (X)");
  } else {
    const std::string number = is_float
                                   ? body.number(replaced, DataType::float32)
                                   : body.integer(body.int_attribute("replaced_value_int64", 0));
    body.write("replaced = Cast <to = {}> ({}) is_missing = Equal (X, replaced)",
               number_of_type(type), number);
  }
  body.add("Y = Where (is_missing, values, X)");
}

/// Side by side, in float32, each input cut or filled up with zeros to its share.
void feature_vectorizer(BodyBuilder& body) {
  const std::vector<std::int64_t> widths = body.ints_attribute("inputdimensions");
  std::vector<std::string> parts;
  for (int i = 0; body.has_variadic(i); ++i) {
    const std::string input = fmt::format("inputs_{}", i);
    Shape shape = body.shape(input);
    if (shape.size() == 1) shape.insert(shape.begin(), 1);
    if (shape.size() != 2) fail("its input {} has not two dimensions", to_string(shape));
    const std::int64_t width = static_cast<std::size_t>(i) < widths.size()
                                   ? widths[static_cast<std::size_t>(i)]
                                   : shape[1];
    body.write("float_{0} = Cast <to = 1> ({1}) rows_{0} = Reshape (float_{0}, {2})", i, input,
               body.ints(shape));
    // Padding by a negative number cuts.
    body.write("part_{0} = Pad (rows_{0}, {1})", i, body.ints({0, 0, 0, width - shape[1]}));
    parts.push_back(fmt::format("part_{}", i));
  }
  body.add("Concat", parts, {"Y"});
  body.set("axis", std::int64_t{1});
}

/// A number in no category becomes zeros, also where the model would rather fail (zeros = 0).
void one_hot_encoder(BodyBuilder& body) {
  if (!body.strings_attribute("cats_strings").empty())
    fail(
        "its categories are strings, which are not supported: encode them as integers before "
        "they reach the model");
  body.write(
      "integers = Cast <to = 7> (X) column = Unsqueeze (integers, {}) "
      "is_category = Equal (column, {}) Y = Cast <to = 1> (is_category)",
      body.ints({-1}), body.ints(body.ints_attribute("cats_int64s")));
}

/// The value of the last key that is equal, NaN to NaN from opset 4 on.
void label_encoder(BodyBuilder& body) {
  if (body.has_attribute("classes_strings"))
    fail(
        "its classes are strings, which are not supported: encode them before they reach the "
        "model");
  const auto keys = listed(body, "keys");
  const auto values = listed(body, "values");
  if (!keys || !values || keys->elements() != values->elements())
    fail("it has no keys, or not as many values");
  if (keys->type() != body.type("X"))
    fail("its input is of {}, its keys of {}", name_of(body.type("X")), name_of(keys->type()));
  std::vector<std::int64_t> places(static_cast<std::size_t>(keys->elements()));
  std::iota(places.begin(), places.end(), 0);
  const std::string key = body.constant(keys->reshaped({keys->elements()}));
  body.write("column = Unsqueeze (X, {}) is_same = Equal (column, {})", body.ints({-1}), key);
  std::string is_equal = "is_same";
  if (keys->type() == DataType::float32 || keys->type() == DataType::float64) {
    body.write(
        "is_number = Equal ({0}, {0}) is_nan_key = Not (is_number) "
        "is_nan = IsNaN (column) both_nan = And (is_nan, is_nan_key) "
        "is_equal = Or (is_same, both_nan)",
        key);
    is_equal = "is_equal";
  }
  body.write(
      "matching = Where ({}, {}, {}) "
      "place = ReduceMax <keepdims = 0> (matching, {})",
      is_equal, body.ints(places), body.integer(-1), body.ints({-1}));
  body.write("values = Concat <axis = 0> ({}, {}) Y = Gather (values, place)",
             body.constant(values->reshaped({values->elements()})),
             default_value(body, values->type()));
}

}  // namespace autopar::graph::ml
