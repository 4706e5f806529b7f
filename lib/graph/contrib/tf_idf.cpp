// TfIdfVectorizer of integers.

#include <algorithm>

#include "base/checked.h"
#include "graph/contrib/families.h"

namespace autopar::graph {
namespace {

/// The n-grams of one length: how often each comes in each row, with up to `skips` items left out
/// between two that follow one another in it.
struct Grams {
  std::int64_t length = 1;
  Ints items;  ///< gram after gram
  std::int64_t skips = 0;

  std::int64_t count() const { return std::ssize(items) / length; }
};

/// Counts, [rows, count], in `items`, [rows, columns].
Operand counts_of(BodyBuilder& body, const Grams& grams, const Operand& items, std::int64_t rows,
                  std::int64_t columns) {
  Operand counts = body.op("Expand", {body.number(0), Ints{rows, grams.count()}});
  const Operand all = body.reshape(grams.items, {grams.count(), grams.length});
  // One item has none between.
  const std::int64_t steps = grams.length == 1 ? 1 : saturated_add(grams.skips, 1);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::int64_t windows = columns - step * (grams.length - 1);
    if (windows <= 0) break;
    body.take_constant(checked_multiply(windows, grams.length, "the windows of its n-grams"),
                       DataType::int64);
    Ints places;
    for (std::int64_t first = 0; first < windows; ++first)
      for (std::int64_t i = 0; i < grams.length; ++i) places.push_back(first + step * i);
    const Operand by_window =
        body.op("Gather", {items, body.reshape(places, {windows, 1, grams.length})}, {{"axis", 1}});
    const Operand same = body.cast(body.op("Equal", {by_window, all}), DataType::float32);
    const Operand matches = body.op("ReduceMin", {same, Ints{-1}}, {{"keepdims", 0}});
    counts = counts + body.op("ReduceSum", {matches, Ints{1}}, {{"keepdims", 0}});
  }
  return counts;
}

void tf_idf_vectorizer(BodyBuilder& body) {
  const Shape& x = body.shape("X");
  const Ints pool = body.ints_attribute("pool_int64s");
  const Ints starts = body.ints_attribute("ngram_counts");
  const Ints indexes = body.ints_attribute("ngram_indexes");
  const std::string mode = body.string_attribute("mode", "TF");
  if (x.empty() || x.size() > 2 || pool.empty() || indexes.empty() || std::ranges::min(indexes) < 0)
    fail("its input {} with {} integers in its pool is not supported", to_string(x), pool.size());
  const std::int64_t rows = x.size() == 2 ? x[0] : 1;
  const std::int64_t columns = x.back();
  const Operand items = body.reshape(body.cast(body["X"], DataType::int64), {rows, columns});
  Operands counts;
  std::int64_t total = 0;
  for (std::size_t n = 0; n < starts.size(); ++n) {
    const std::int64_t end = n + 1 < starts.size() ? starts[n + 1] : std::ssize(pool);
    Grams grams{static_cast<std::int64_t>(n) + 1, {}, body.int_attribute("max_skip_count", 0)};
    if (starts[n] < 0 || end < starts[n] || end > std::ssize(pool) ||
        (end - starts[n]) % grams.length != 0)
      fail("its attribute 'ngram_counts' does not fit its pool of {}", pool.size());
    if (end == starts[n]) continue;
    grams.items.assign(pool.begin() + starts[n], pool.begin() + end);
    total += grams.count();
    const bool is_wanted = grams.length >= body.int_attribute("min_gram_length", 1) &&
                           grams.length <= body.int_attribute("max_gram_length", 1);
    counts.push_back(counts_of(body, grams, items, rows, is_wanted ? columns : 0));
  }
  const std::vector<float> weights = body.floats_attribute("weights");
  if (total != std::ssize(indexes) || (!weights.empty() && weights.size() != indexes.size()))
    fail("its attributes have {} n-grams, {} indexes and {} weights", total, indexes.size(),
         weights.size());
  Operand score = body.concat(counts, 1);
  if (mode == "IDF") score = body.op("Min", {score, body.number(1)});
  if (mode != "TF" && !weights.empty()) score = score * body.floats(weights);
  const std::int64_t size =
      checked_add(std::ranges::max(indexes), 1, "its attribute 'ngram_indexes'");
  const Operand nothing = body.op("Expand", {body.number(0), Ints{rows, size}});
  const Operand places = body.op("Expand", {indexes, Ints{rows, total}});
  const Operand table =
      body.op("ScatterElements", {nothing, places, score}, {{"axis", 1}, {"reduction", "add"}});
  body.output("Y", body.reshape(table, x.size() == 2 ? Shape{rows, size} : Shape{size}));
}

constexpr ContribOperator operators[] = {
    {"", "TfIdfVectorizer", "X", "Y", "", tf_idf_vectorizer},
};

}  // namespace

std::span<const ContribOperator> tf_idf_operators() { return operators; }

}  // namespace autopar::graph
