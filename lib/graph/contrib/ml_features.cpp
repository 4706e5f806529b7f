// Operators of ai.onnx.ml that prepare features: choosing, scaling, imputing, encoding.

#include <cmath>
#include <set>

#include "graph/contrib/families.h"

namespace autopar::graph {
namespace {

void array_feature_extractor(BodyBuilder& body) {
  const Operand places = body.reshape(body["Y"], {-1});
  const Operand rows =
      body.shape("X").size() == 1 ? body.op("Unsqueeze", {body["X"], Ints{0}}) : body["X"];
  body.output("Z", body.op("Gather", {rows, places}, {{"axis", -1}}));
}

void binarizer(BodyBuilder& body) {
  const DataType type = body.type("X");
  const Operand threshold = body.cast(body.number(body.float_attribute("threshold", 0)), type);
  body.output("Y", body.cast(body.op("Greater", {body["X"], threshold}), type));
}

/// (X - offset) scale, each for all columns or one a column; in float32.
void scaler(BodyBuilder& body) {
  const auto vector = [&](const char* name, float otherwise) {
    const std::vector<float> numbers = body.floats_attribute(name);
    return body.floats(numbers.empty() ? std::vector{otherwise} : numbers);
  };
  const Operand x = body.cast(body["X"], DataType::float32);
  body.output("Y", (x - vector("offset", 0)) * vector("scale", 1));
}

/// Keys or values of a LabelEncoder: one of its lists of numbers, or a tensor.
std::optional<Tensor> listed(const BodyBuilder& body, const std::string& name) {
  if (!body.strings_attribute(name + "_strings").empty())
    fail(
        "its {} are strings, which are not supported: encode them before they reach the model, "
        "or fit it on integers",
        name);
  if (auto tensor = body.tensor_attribute(name + "_tensor")) return tensor;
  const Ints ints = body.ints_attribute(name + "_int64s");
  if (!ints.empty()) return Tensor::of_int64({std::ssize(ints)}, ints);
  const std::vector<float> floats = body.floats_attribute(name + "_floats");
  if (!floats.empty()) return Tensor::of_float({std::ssize(floats)}, floats);
  return std::nullopt;
}

/// What a LabelEncoder answers where no key matches, [1].
Operand default_value(BodyBuilder& body, DataType type) {
  if (const auto tensor = body.tensor_attribute("default_tensor")) {
    if (tensor->elements() != 1)
      fail("its attribute 'default_tensor' has {} elements, not one", tensor->elements());
    return body.constant(tensor->reshaped({1}));
  }
  if (type == DataType::int64)
    return body.constant(Tensor::of_int64({1}, Ints{body.int_attribute("default_int64", -1)}));
  if (type == DataType::float32) return body.floats({body.float_attribute("default_float", -0.0F)});
  return body.cast(body.floats({type == DataType::float64 ? -0.0F : -1.0F}), type);
}

/// Divides each row by its largest element, the sum of absolute values or the root of the sum of
/// squares; a row for which that is 0 stays.
void normalizer(BodyBuilder& body) {
  static const std::map<std::string, std::string> reductions = {
      {"MAX", "ReduceMax"}, {"L1", "ReduceL1"}, {"L2", "ReduceL2"}};
  const std::string norm = body.string_attribute("norm", "MAX");
  const auto reduction = reductions.find(norm);
  if (reduction == reductions.end()) fail("its attribute 'norm' is '{}', which is not known", norm);
  const Operand x = body.cast(body["X"], DataType::float32);
  const Operand size = body.op(reduction->second, {x, Ints{-1}}, {{"keepdims", 1}});
  const Operand is_zero = body.op("Equal", {size, body.number(0)});
  body.output("Y", x / body.where(is_zero, body.number(1), size));
}

/// One imputed value for all columns, or one a column.
void imputer(BodyBuilder& body) {
  const DataType type = body.type("X");
  const bool is_float = type == DataType::float32 || type == DataType::float64;
  std::vector<float> floats = body.floats_attribute("imputed_value_floats");
  Ints ints = body.ints_attribute("imputed_value_int64s");
  const std::size_t given = is_float ? floats.size() : ints.size();
  if (given == 0) fail("it has no values of {} to impute", name_of(type));
  const auto columns = static_cast<std::size_t>(body.shape("X").back());
  const std::size_t count = given == columns ? given : 1;
  floats.resize(count);
  ints.resize(count);
  const Operand values = body.cast(
      is_float ? body.floats(floats) : body.constant(Tensor::of_int64({std::ssize(ints)}, ints)),
      type);
  const float replaced = body.float_attribute("replaced_value_float", 0);
  const Operand number = is_float ? body.number(replaced)
                                  : body.integer(body.int_attribute("replaced_value_int64", 0));
  const Operand is_missing = is_float && std::isnan(replaced)
                                 ? body.op("IsNaN", {body["X"]})
                                 : body.op("Equal", {body["X"], body.cast(number, type)});
  body.output("Y", body.where(is_missing, values, body["X"]));
}

/// Side by side, in float32, each input cut or filled up with zeros to its share.
void feature_vectorizer(BodyBuilder& body) {
  const Ints widths = body.ints_attribute("inputdimensions");
  Operands parts;
  for (int i = 0; body.has_variadic(i); ++i) {
    const std::string input = fmt::format("inputs_{}", i);
    Shape shape = body.shape(input);
    if (shape.size() == 1) shape.insert(shape.begin(), 1);
    if (shape.size() != 2) fail("its input {} has not two dimensions", to_string(shape));
    const std::int64_t width =
        i < std::ssize(widths) ? widths[static_cast<std::size_t>(i)] : shape[1];
    if (width < 0) fail("its attribute 'inputdimensions' has {}", width);
    const Operand rows = body.reshape(body.cast(body[input], DataType::float32), shape);
    // Padding by a negative number cuts.
    parts.push_back(body.op("Pad", {rows, Ints{0, 0, 0, width - shape[1]}}));
  }
  body.output("Y", body.concat(parts, 1));
}

/// A number in no category becomes zeros, also where the model would rather fail (zeros = 0). Of a
/// category that is listed twice the last one counts.
void one_hot_encoder(BodyBuilder& body) {
  if (!body.strings_attribute("cats_strings").empty())
    fail(
        "its categories are strings, which are not supported: encode them as integers before "
        "they reach the model");
  const Operand column = body.op("Unsqueeze", {body.cast(body["X"], DataType::int64), Ints{-1}});
  const Ints categories = body.ints_attribute("cats_int64s");
  const Operand is_category = body.op("Equal", {column, categories});
  Operand ones = body.cast(is_category, DataType::float32);
  std::vector<float> counts(categories.size());
  std::set<std::int64_t> seen;
  for (std::size_t c = categories.size(); c-- > 0;)
    counts[c] = seen.insert(categories[c]).second ? 1 : 0;
  if (seen.size() < categories.size()) ones = ones * body.floats(counts);
  body.output("Y", ones);
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
  const Operand key = body.constant(keys->reshaped({keys->elements()}));
  const Operand column = body.op("Unsqueeze", {body["X"], Ints{-1}});
  Operand is_equal = body.op("Equal", {column, key});
  if (keys->type() == DataType::float32 || keys->type() == DataType::float64) {
    const Operand is_nan_key = body.op("Not", {body.op("Equal", {key, key})});
    const Operand both_nan = body.op("And", {body.op("IsNaN", {column}), is_nan_key});
    is_equal = body.op("Or", {is_equal, both_nan});
  }
  const Operand matching = body.where(is_equal, body.counted(keys->elements()), body.integer(-1));
  const Operand place = body.op("ReduceMax", {matching, Ints{-1}}, {{"keepdims", 0}});
  const Operand answers = body.concat(
      {body.constant(values->reshaped({values->elements()})), default_value(body, values->type())},
      0);
  body.output("Y", body.op("Gather", {answers, place}));
}

constexpr ContribOperator operators[] = {
    {ml_domain, "ArrayFeatureExtractor", "X Y", "Z", "", array_feature_extractor},
    {ml_domain, "Binarizer", "X", "Y", "", binarizer},
    {ml_domain, "FeatureVectorizer", "inputs*", "Y", "", feature_vectorizer},
    {ml_domain, "Imputer", "X", "Y", "", imputer},
    {ml_domain, "LabelEncoder", "X", "Y", "", label_encoder},
    {ml_domain, "Normalizer", "X", "Y", "", normalizer},
    {ml_domain, "OneHotEncoder", "X", "Y", "", one_hot_encoder},
    {ml_domain, "Scaler", "X", "Y", "", scaler},
};

}  // namespace

std::span<const ContribOperator> ml_feature_operators() { return operators; }

}  // namespace autopar::graph
