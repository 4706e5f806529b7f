#include "graph/contrib/ml_bodies.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::graph::ml {

void array_feature_extractor(BodyBuilder& body) {
  const Shape& x = body.shape("X");
  body.write("places = Reshape (Y, {})", body.ints({-1}));
  if (x.size() == 1)
    body.write("row = Unsqueeze (X, {}) Z = Gather <axis = -1> (row, places)", body.ints({0}));
  else
    body.add("Z = Gather <axis = -1> (X, places)");
}

void binarizer(BodyBuilder& body) {
  body.write(
      "threshold = Cast <to = {0}> ({1}) is_above = Greater (X, threshold) "
      "Y = Cast <to = {0}> (is_above)",
      static_cast<int>(body.type("X")),
      body.number(body.float_attribute("threshold", 0), DataType::float32));
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
  body.write("x = Cast <to = 1> (X) centred = Sub (x, {}) Y = Mul (centred, {})", offset, scale);
}

namespace {

/// The n-grams of one length: how often each comes in each row, with up to `skips` items left out
/// between two that follow one another in it.
struct Grams {
  std::int64_t length = 1;
  std::vector<std::int64_t> items;  ///< gram after gram
  std::int64_t skips = 0;

  std::int64_t count() const { return static_cast<std::int64_t>(items.size()) / length; }
};

/// Counts in "items", of [rows, columns]; the result's name is of [rows, count].
std::string counted(BodyBuilder& body, const Grams& grams, std::int64_t rows,
                    std::int64_t columns) {
  const std::string name = fmt::format("of_{}", grams.length);
  body.write("{}_0 = Expand ({}, {})", name, body.number(0, DataType::float32),
             body.ints({rows, grams.count()}));
  body.write("{0}_grams = Reshape ({1}, {2})", name, body.ints(grams.items),
             body.ints({grams.count(), grams.length}));
  std::int64_t step = 1;
  // One item has none between.
  for (; step <= (grams.length == 1 ? 1 : grams.skips + 1); ++step) {
    const std::int64_t windows = columns - step * (grams.length - 1);
    if (windows <= 0) break;
    std::vector<std::int64_t> places;
    for (std::int64_t first = 0; first < windows; ++first)
      for (std::int64_t i = 0; i < grams.length; ++i) places.push_back(first + step * i);
    body.write(
        "{0}_places_{1} = Reshape ({2}, {3}) "
        "{0}_windows_{1} = Gather <axis = 1> (items, {0}_places_{1}) "
        "{0}_same_{1} = Equal ({0}_windows_{1}, {0}_grams) "
        "{0}_match_{1} = Cast <to = 1> ({0}_same_{1}) "
        "{0}_matches_{1} = ReduceMin <keepdims = 0> ({0}_match_{1}, {4}) "
        "{0}_times_{1} = ReduceSum <keepdims = 0> ({0}_matches_{1}, {5}) "
        "{0}_{1} = Add ({0}_{6}, {0}_times_{1})",
        name, step, body.ints(places), body.ints({windows, 1, grams.length}), body.ints({-1}),
        body.ints({1}), step - 1);
  }
  return fmt::format("{}_{}", name, step - 1);
}

}  // namespace

void tf_idf_vectorizer(BodyBuilder& body) {
  const Shape& x = body.shape("X");
  const std::vector<std::int64_t> pool = body.ints_attribute("pool_int64s");
  const std::vector<std::int64_t> starts = body.ints_attribute("ngram_counts");
  const std::vector<std::int64_t> indexes = body.ints_attribute("ngram_indexes");
  const std::string mode = body.string_attribute("mode", "TF");
  if (x.empty() || x.size() > 2 || pool.empty() || indexes.empty() || std::ranges::min(indexes) < 0)
    fail("its input {} with {} integers in its pool is not supported", to_string(x), pool.size());
  const std::int64_t rows = x.size() == 2 ? x[0] : 1;
  const std::int64_t columns = x.back();
  body.write("integers = Cast <to = 7> (X) items = Reshape (integers, {})",
             body.ints({rows, columns}));
  std::vector<std::string> counts;
  std::int64_t total = 0;
  for (std::size_t n = 0; n < starts.size(); ++n) {
    const std::int64_t end =
        n + 1 < starts.size() ? starts[n + 1] : static_cast<std::int64_t>(pool.size());
    Grams grams{static_cast<std::int64_t>(n) + 1, {}, body.int_attribute("max_skip_count", 0)};
    if (starts[n] < 0 || end < starts[n] || end > static_cast<std::int64_t>(pool.size()) ||
        (end - starts[n]) % grams.length != 0)
      fail("its attribute 'ngram_counts' does not fit its pool of {}", pool.size());
    if (end == starts[n]) continue;
    grams.items.assign(pool.begin() + starts[n], pool.begin() + end);
    total += grams.count();
    const bool is_wanted = grams.length >= body.int_attribute("min_gram_length", 1) &&
                           grams.length <= body.int_attribute("max_gram_length", 1);
    counts.push_back(counted(body, grams, rows, is_wanted ? columns : 0));
  }
  const std::vector<float> weights = body.floats_attribute("weights");
  if (total != static_cast<std::int64_t>(indexes.size()) ||
      (!weights.empty() && weights.size() != indexes.size()))
    fail("its attributes have {} n-grams, {} indexes and {} weights", total, indexes.size(),
         weights.size());
  body.add("Concat", counts, {"counts"});
  body.set("axis", std::int64_t{1});
  std::string score = "counts";
  if (mode == "IDF") {
    body.write("present = Min (counts, {})", body.number(1, DataType::float32));
    score = "present";
  }
  if (mode != "TF" && !weights.empty()) {
    body.write("weighted = Mul ({}, {})", score, body.floats(weights));
    score = "weighted";
  }
  const std::int64_t size = std::ranges::max(indexes) + 1;
  body.write(
      "nothing = Expand ({}, {}) columns = Expand ({}, {}) "
      "table = ScatterElements <axis = 1, reduction = \"add\"> (nothing, columns, {}) "
      "Y = Reshape (table, {})",
      body.number(0, DataType::float32), body.ints({rows, size}), body.ints(indexes),
      body.ints({rows, total}), score, body.ints(x.size() == 2 ? Shape{rows, size} : Shape{size}));
}

}  // namespace autopar::graph::ml
