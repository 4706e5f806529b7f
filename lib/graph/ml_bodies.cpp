#include "graph/ml_bodies.h"

#include "graph/error.h"

namespace autopar::graph::ml {

void array_feature_extractor(BodyBuilder& body) {
  const Shape& x = body.shape("X");
  body.add(fmt::format("places = Reshape (Y, {})", body.ints({-1})));
  if (x.size() == 1)
    body.add(fmt::format("row = Unsqueeze (X, {}) Z = Gather <axis = -1> (row, places)",
                         body.ints({0})));
  else
    body.add("Z = Gather <axis = -1> (X, places)");
}

void binarizer(BodyBuilder& body) {
  body.add(
      fmt::format("threshold = Cast <to = {0}> ({1}) is_above = Greater (X, threshold) "
                  "Y = Cast <to = {0}> (is_above)",
                  static_cast<int>(body.type("X")),
                  body.number(body.float_attribute("threshold", 0), DataType::float32)));
}

/// (X - offset) scale, each for all columns or one a column; in float32.
void scaler(BodyBuilder& body) {
  const auto vector = [&](const char* name, float otherwise) {
    std::vector<float> numbers = body.floats_attribute(name);
    if (numbers.empty()) numbers = {otherwise};
    return body.floats(numbers);
  };
  const std::string offset = vector("offset", 0);
  const std::string scale = vector("scale", 1);
  body.add(fmt::format("x = Cast <to = 1> (X) centred = Sub (x, {}) Y = Mul (centred, {})", offset,
                       scale));
}

}  // namespace autopar::graph::ml
