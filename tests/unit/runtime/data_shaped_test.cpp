// Operators whose results' shapes depend on values, on constants.

#include <map>
#include <set>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

std::vector<Tensor> evaluate(const std::string& op_type,
                             std::map<std::string, Attribute> attributes,
                             std::vector<std::optional<Tensor>> inputs, std::size_t outputs = 1,
                             DataType type = DataType::int64) {
  NodeRun run{op_type, std::move(attributes), std::move(inputs), {}};
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    if (run.inputs[i]) run.constants.push_back(i);
  for (std::size_t i = 0; i < outputs; ++i)
    run.outputs.emplace_back(i == 0 ? type : DataType::int64, Shape{0});
  const auto results = evaluate_constants(make_graph(run));
  REQUIRE(results);
  return *results;
}

}  // namespace

TEST_CASE("NonZero has a column for each element that is not 0, in order") {
  Random random(1);
  for (const Shape& shape : {Shape{3, 4, 2}, Shape{7}, Shape{}, Shape{0, 3}})
    for (const DataType type : {DataType::float32, DataType::boolean, DataType::int64,
                                DataType::float16, DataType::uint8}) {
      const Tensor x = random_in(type, shape, random, 0, 2);
      std::vector<std::vector<double>> rows(shape.size());
      std::int64_t count = 0;
      for_each_index(shape, [&](const Shape& index) {
        if (at(x, index) == 0) return;
        ++count;
        for (std::size_t d = 0; d < shape.size(); ++d)
          rows[d].push_back(static_cast<double>(index[d]));
      });
      std::vector<double> expected;
      for (const auto& row : rows) expected.insert(expected.end(), row.begin(), row.end());
      const Tensor y = evaluate("NonZero", {}, {x}).front();
      CHECK(y.shape() == Shape{static_cast<std::int64_t>(shape.size()), count});
      CHECK(doubles(y) == expected);
    }
}

TEST_CASE("Unique elements, sorted and as they come, with their places") {
  Random random(2);
  for (const DataType type :
       {DataType::float32, DataType::bfloat16, DataType::int64, DataType::uint8})
    for (const bool sorted : {true, false}) {
      const Tensor x = random_in(type, {4, 5}, random, 0, 4);
      std::vector<double> values = doubles(x);
      for (double& value : values) value = std::floor(value);
      const Tensor whole = tensor_of(type, {4, 5}, values);
      const auto results = evaluate("Unique", {{"sorted", std::int64_t{sorted}}}, {whole}, 4, type);
      const auto unique = doubles(results[0]);
      const auto first = results[1].to_int64s();
      const auto inverse = results[2].to_int64s();
      const auto counts = results[3].to_int64s();
      CHECK(std::set<double>(unique.begin(), unique.end()) ==
            std::set<double>(values.begin(), values.end()));
      if (sorted)
        CHECK(std::ranges::is_sorted(unique));
      else
        CHECK(std::ranges::is_sorted(first));
      for (std::size_t i = 0; i < unique.size(); ++i) {
        CHECK(counts[i] == std::ranges::count(values, unique[i]));
        CHECK(first[i] == std::ranges::find(values, unique[i]) - values.begin());
      }
      REQUIRE(inverse.size() == values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        CHECK(unique[static_cast<std::size_t>(inverse[i])] == values[i]);
    }
}

TEST_CASE("Unique slices along an axis") {
  const Tensor x = tensor_of(DataType::float32, {3, 3}, {1, 0, 1, 2, 3, 2, 1, 0, 1});
  const auto rows = evaluate("Unique", {{"axis", std::int64_t{0}}}, {x}, 4, DataType::float32);
  CHECK(rows[0].shape() == Shape{2, 3});
  CHECK(doubles(rows[0]) == std::vector<double>{1, 0, 1, 2, 3, 2});
  CHECK(rows[2].to_int64s() == std::vector<std::int64_t>{0, 1, 0});
  const auto columns = evaluate("Unique", {{"axis", std::int64_t{-1}}}, {x}, 1, DataType::float32);
  CHECK(columns[0].shape() == Shape{3, 2});
  CHECK(doubles(columns[0]) == std::vector<double>{0, 1, 3, 2, 0, 1});
}

TEST_CASE("Compress of constants") {
  const Tensor x = tensor_of(DataType::int64, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor keeps = tensor_of(DataType::boolean, {3}, {1, 0, 1});
  CHECK(evaluate("Compress", {{"axis", std::int64_t{0}}}, {x, keeps}).front().to_int64s() ==
        std::vector<std::int64_t>{1, 2, 5, 6});
  CHECK(evaluate("Compress", {}, {x, keeps}).front().to_int64s() ==
        std::vector<std::int64_t>{1, 3});
}

namespace {

Tensor limit(std::int64_t most) { return Tensor::of_int64({1}, std::span(&most, 1)); }
Tensor number(double value) { return tensor_of(DataType::float32, {1}, {value}); }

}  // namespace

TEST_CASE("NonMaxSuppression keeps the best of boxes that overlap, and no more than asked for") {
  // Unit squares in a row, the second one near the first; corners in either order.
  const Tensor boxes =
      tensor_of(DataType::float32, {1, 4, 4}, {0, 0, 1, 1, 1, 1.1, 0, 0.1, 0, 2, 1, 3, 0, 4, 1, 5});
  const Tensor scores =
      tensor_of(DataType::float32, {1, 2, 4}, {0.5, 0.9, 0.1, 0.3, 0.9, 0.5, 0.1, 0.3});
  const auto selected = [&](std::int64_t most, double threshold, std::optional<Tensor> least) {
    return evaluate("NonMaxSuppression", {},
                    {boxes, scores, limit(most), number(threshold), std::move(least)})
        .front()
        .to_int64s();
  };
  CHECK(selected(9, 0.5, std::nullopt) ==
        std::vector<std::int64_t>{0, 0, 1, 0, 0, 3, 0, 0, 2, 0, 1, 0, 0, 1, 3, 0, 1, 2});
  CHECK(selected(1, 0.5, std::nullopt) == std::vector<std::int64_t>{0, 0, 1, 0, 1, 0});
  CHECK(selected(9, 0.5, number(0.2)) ==
        std::vector<std::int64_t>{0, 0, 1, 0, 0, 3, 0, 1, 0, 0, 1, 3});
  CHECK(selected(9, 0.95, number(0.4)) ==
        std::vector<std::int64_t>{0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1});
  CHECK(selected(0, 0.5, std::nullopt).empty());
}

TEST_CASE("What no operator with such a shape allows is not evaluated") {
  const Tensor x = Tensor::zeros(DataType::float32, {3});
  NodeRun run{"Compress",
              {{"axis", std::int64_t{2}}},
              {x, Tensor::zeros(DataType::boolean, {3})},
              {{DataType::float32, {0}}},
              {0, 1}};
  CHECK_FALSE(evaluate_constants(make_graph(run)));
}
