// TopK, ArgMax, ArgMin and Hardmax against sorting, and the reductions and scans that are rare.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

const std::vector<DataType> number_types = [] {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  return types;
}();

/// Small whole numbers, so that equals are frequent.
Tensor with_equals(Random& random, const Shape& shape, DataType type) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  for (double& value : values) value = static_cast<double>(random() % 7);
  return tensor_of(type, shape, values);
}

/// A tensor's row along an axis, and where its elements lie.
struct Row {
  std::vector<double> values;
  std::vector<std::size_t> places;
};
std::vector<Row> rows_of(const Tensor& x, std::size_t axis) {
  const std::vector<double> values = doubles(x);
  const Shape strides = graph::row_major_strides(x.shape());
  std::vector<Row> rows;
  for_each_index(x.shape(), [&](const Shape& index) {
    if (index[axis] != 0) return;
    Row& row = rows.emplace_back();
    for (std::int64_t i = 0; i < x.shape()[axis]; ++i) {
      std::int64_t place = 0;
      for (std::size_t d = 0; d < index.size(); ++d)
        place += (d == axis ? i : index[d]) * strides[d];
      row.places.push_back(static_cast<std::size_t>(place));
      row.values.push_back(values[row.places.back()]);
    }
  });
  return rows;
}

/// Whether `x` comes before `y` where the largest, or else the smallest, come first: NaN is more
/// than all numbers.
bool comes_first(double x, double y, bool largest) {
  if (std::isnan(x) || std::isnan(y))
    return std::isnan(largest ? x : y) && !(std::isnan(x) && std::isnan(y));
  return largest ? x > y : x < y;
}

/// Numbers of both signs, and for floats now and then an infinity, NaN or either zero.
Tensor with_odd_numbers(Random& random, const Shape& shape, DataType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double odd[] = {infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 0.0, -0.0};
  std::vector<double> values = doubles(random_in(type, shape, random, -100, 100));
  if (graph::is_floating_point(type))
    for (double& value : values)
      if (random() % 20 == 0) value = odd[random() % std::size(odd)];
  return tensor_of(type, shape, values);
}

}  // namespace

TEST_CASE("TopK of long rows equals a stable sort, for odd numbers, too") {
  Random random(11);
  for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                              DataType::bfloat16, DataType::int32, DataType::int64, DataType::int8})
    for (const Shape& shape : {Shape{2, 1500}, Shape{1, 400, 3}})
      for (const std::int64_t k : {1, 5, 50, 400})
        for (const bool largest : {true, false}) {
          const Tensor x = with_odd_numbers(random, shape, type);
          Shape out = shape;
          out[1] = k;
          const auto results =
              run_node({"TopK",
                        {{"axis", std::int64_t{1}}, {"largest", std::int64_t{largest}}},
                        {x, Tensor::of_int64({1}, std::span(&k, 1))},
                        {{type, out}, {DataType::int64, out}},
                        {1},
                        2});
          const auto rows = rows_of(x, 1);
          const auto values = rows_of(results[0], 1);
          const auto indices = rows_of(results[1], 1);
          CAPTURE(name_of(type), graph::to_string(shape), k, largest);
          for (std::size_t r = 0; r < rows.size(); ++r) {
            std::vector<std::size_t> order(rows[r].values.size());
            std::iota(order.begin(), order.end(), 0);
            std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
              return comes_first(rows[r].values[a], rows[r].values[b], largest);
            });
            for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
              REQUIRE(indices[r].values[i] == static_cast<double>(order[i]));
              const double expected = rows[r].values[order[i]];
              REQUIRE((values[r].values[i] == expected ||
                       (std::isnan(values[r].values[i]) && std::isnan(expected))));
            }
          }
        }
}

TEST_CASE("TopK sorts long rows where nearly all, or all, is chosen") {
  Random random(12);
  for (const std::int64_t k : {2047, 2048, 2049, 2100}) {
    const Tensor x = with_equals(random, {1, 2100}, DataType::float32);
    const auto chosen = doubles(run_node({"TopK",
                                          {},
                                          {x, Tensor::of_int64({1}, std::span(&k, 1))},
                                          {{DataType::float32, {1, k}}, {DataType::int64, {1, k}}},
                                          {1}})[1]);
    const std::vector<double> values = doubles(x);
    std::vector<double> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](double a, double b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
    order.resize(static_cast<std::size_t>(k));
    REQUIRE(chosen == order);
  }
}

TEST_CASE("ArgMax and ArgMin of long rows, in parts where they are few, equal a loop") {
  Random random(13);
  for (const DataType type : number_types)
    for (const Shape& shape : {Shape{2, 9000}, Shape{1, 300, 3}, Shape{40, 130}})
      for (const bool has_odd : {false, true})
        for (const bool last : {false, true})
          for (const bool is_max : {true, false}) {
            const Tensor x = has_odd && graph::is_floating_point(type)
                                 ? with_odd_numbers(random, shape, type)
                                 : with_equals(random, shape, type);
            Shape out = shape;
            out.erase(out.begin() + 1);
            const Tensor y = run_node({is_max ? "ArgMax" : "ArgMin",
                                       {{"axis", std::int64_t{1}},
                                        {"keepdims", std::int64_t{0}},
                                        {"select_last_index", std::int64_t{last}}},
                                       {x},
                                       {{DataType::int64, out}},
                                       {},
                                       2})
                                 .front();
            std::vector<double> expected;
            for (const Row& row : rows_of(x, 1)) {
              std::size_t best = 0;
              for (std::size_t i = 1; i < row.values.size(); ++i) {
                const double value = row.values[i];
                const double other = row.values[best];
                const bool is_first = std::isnan(value) != std::isnan(other)
                                          ? std::isnan(value)
                                          : comes_first(value, other, is_max);
                const bool is_equal = value == other || (std::isnan(value) && std::isnan(other));
                if (is_first || (last && is_equal)) best = i;
              }
              expected.push_back(static_cast<double>(best));
            }
            CAPTURE(name_of(type), graph::to_string(shape), has_odd, last, is_max);
            REQUIRE(doubles(y) == expected);
          }
}

TEST_CASE("TopK of every type, along every axis, equals sorting; lower indices come first") {
  Random random(1);
  for (const Shape& shape : {Shape{4, 9, 5}, Shape{1, 300, 2}, Shape{7}})
    for (const DataType type : number_types)
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        for (const std::int64_t k :
             {std::int64_t{0}, std::int64_t{1}, shape[axis] / 2, shape[axis]})
          for (const bool largest : {true, false}) {
            const Tensor x = with_equals(random, shape, type);
            Shape out = shape;
            out[axis] = k;
            const auto results =
                run_node({"TopK",
                          {{"axis", static_cast<std::int64_t>(axis) -
                                        static_cast<std::int64_t>(k % 2 == 0 ? shape.size() : 0)},
                           {"largest", std::int64_t{largest}}},
                          {x, Tensor::of_int64({1}, std::span(&k, 1))},
                          {{type, out}, {DataType::int64, out}},
                          {1}});
            if (k == 0) continue;
            const auto rows = rows_of(x, axis);
            const auto values = rows_of(results[0], axis);
            const auto indices = rows_of(results[1], axis);
            REQUIRE(values.size() == rows.size());
            for (std::size_t r = 0; r < rows.size(); ++r) {
              std::vector<std::size_t> order(rows[r].values.size());
              std::iota(order.begin(), order.end(), 0);
              std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                return largest ? rows[r].values[a] > rows[r].values[b]
                               : rows[r].values[a] < rows[r].values[b];
              });
              CAPTURE(name_of(type), graph::to_string(shape), axis, k, largest);
              for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
                REQUIRE(indices[r].values[i] == static_cast<double>(order[i]));
                REQUIRE(values[r].values[i] == rows[r].values[order[i]]);
              }
            }
          }
}

TEST_CASE("NaN is more than all numbers to TopK, and first to ArgMax and ArgMin") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor_of(DataType::float32, {5}, {1, nan, 3, nan, 2});
  const auto top = [&](std::int64_t largest) {
    return doubles(run_node({"TopK",
                             {{"largest", largest}},
                             {x, tensor_of(DataType::int64, {1}, {3})},
                             {{DataType::float32, {3}}, {DataType::int64, {3}}},
                             {1}})[1]);
  };
  CHECK(top(1) == std::vector<double>{1, 3, 2});
  CHECK(top(0) == std::vector<double>{0, 4, 2});
  for (const char* op_type : {"ArgMax", "ArgMin"})
    for (const std::int64_t last : {0, 1})
      CHECK(doubles(run_node(
                {op_type, {{"select_last_index", last}}, {x}, {{DataType::int64, {1}}}})[0]) ==
            std::vector<double>{last == 0 ? 1.0 : 3.0});
}

TEST_CASE("ArgMax and ArgMin of every type, the first and the last of equals") {
  Random random(2);
  const Shape shape{3, 8, 4};
  for (const DataType type : number_types)
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const bool last : {false, true})
        for (const bool is_max : {true, false}) {
          const Tensor x = with_equals(random, shape, type);
          Shape out = shape;
          out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
          const Tensor y = run_node({is_max ? "ArgMax" : "ArgMin",
                                     {{"axis", static_cast<std::int64_t>(axis)},
                                      {"keepdims", std::int64_t{0}},
                                      {"select_last_index", std::int64_t{last}}},
                                     {x},
                                     {{DataType::int64, out}}})
                               .front();
          std::vector<double> expected;
          for (Row& row : rows_of(x, axis)) {
            if (!is_max)
              for (double& value : row.values) value = -value;
            const double best = *std::ranges::max_element(row.values);
            const auto first = std::ranges::find(row.values, best) - row.values.begin();
            const auto from_end =
                std::find(row.values.rbegin(), row.values.rend(), best) - row.values.rbegin();
            expected.push_back(static_cast<double>(
                last ? static_cast<std::ptrdiff_t>(row.values.size()) - 1 - from_end : first));
          }
          CAPTURE(name_of(type), axis, last, is_max);
          REQUIRE(doubles(y) == expected);
        }
}

TEST_CASE("Hardmax is 1 at the first of the largest, for every float") {
  Random random(3);
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, std::size_t>>{
           {{3, 8, 4}, 0}, {{3, 8, 4}, 1}, {{3, 8, 4}, 2}, {{2, 300, 2}, 1}, {{3, 700}, 1}})
    for (const DataType type : float_types) {
      const Tensor x = with_equals(random, shape, type);
      std::vector<double> expected(static_cast<std::size_t>(graph::num_elements(shape)), 0);
      for (const Row& row : rows_of(x, axis))
        expected[row.places[static_cast<std::size_t>(std::ranges::max_element(row.values) -
                                                     row.values.begin())]] = 1;
      CAPTURE(name_of(type), axis);
      REQUIRE(
          doubles(
              run_node(
                  {"Hardmax", {{"axis", static_cast<std::int64_t>(axis)}}, {x}, {{type, shape}}})
                  .front()) == expected);
    }
}

TEST_CASE("ReduceLogSum and ReduceLogSumExp, of large numbers too, equal a loop") {
  Random random(4);
  const Shape shape{3, 4, 5, 2};
  const std::vector<std::int64_t> axes{0, 2};
  for (const DataType type : float_types) {
    const Tensor x = random_in(type, shape, random, 0.5, 4);
    std::vector<double> sums(8, 0);
    std::vector<double> exponentials(8, 0);
    for_each_index(shape, [&](const Shape& index) {
      const auto place = static_cast<std::size_t>(index[1] * 2 + index[3]);
      sums[place] += at(x, index);
      exponentials[place] += std::exp(at(x, index));
    });
    for (double& sum : sums) sum = std::log(sum);
    for (double& sum : exponentials) sum = std::log(sum);
    const auto reduced = [&](const char* op_type) {
      return run_node({op_type,
                       {{"keepdims", std::int64_t{0}}},
                       {x, Tensor::of_int64({2}, axes)},
                       {{type, {4, 2}}},
                       {1}})
          .front();
    };
    check_close(reduced("ReduceLogSum"), sums);
    check_close(reduced("ReduceLogSumExp"), exponentials);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{399}}) {  // a long row
    std::vector<double> values(800, 999);
    values[static_cast<std::size_t>(at)] = 1000;
    values[400 + static_cast<std::size_t>(at)] = infinity;
    const std::vector<std::int64_t> axis{1};
    const auto long_rows = doubles(
        run_node({"ReduceLogSumExp",
                  {},
                  {tensor_of(DataType::float64, {2, 400}, values), Tensor::of_int64({1}, axis)},
                  {{DataType::float64, {2, 1}}},
                  {1}})
            .front());
    CHECK(long_rows[0] == Approx(1000 + std::log(1 + 399 * std::exp(-1))).epsilon(1e-12));
    CHECK(long_rows[1] == infinity);
  }
  const Tensor large = tensor_of(DataType::float32, {4, 2},
                                 {1000, 1000, -2000, -2000, infinity, 1, -infinity, -infinity});
  const std::vector<std::int64_t> axis{1};
  const auto results = doubles(run_node({"ReduceLogSumExp",
                                         {},
                                         {large, Tensor::of_int64({1}, axis)},
                                         {{DataType::float32, {4, 1}}},
                                         {1}})
                                   .front());
  CHECK(results[0] == Approx(1000 + std::log(2)));
  CHECK(results[1] == Approx(-2000 + std::log(2)));
  CHECK(results[2] == infinity);
  CHECK(results[3] == -infinity);
}

TEST_CASE("Reductions of 64-bit unsigned numbers, and of bools") {
  const Tensor large = Tensor::of<std::uint64_t>(
      DataType::uint64, {2}, std::vector<std::uint64_t>{std::uint64_t{1} << 63, 5});
  const auto reduced = [&](const char* op_type, const Tensor& x) {
    return run_node({op_type, {{"keepdims", std::int64_t{0}}}, {x}, {{x.type(), {}}}}).front();
  };
  CHECK(reduced("ReduceMax", large).values<std::uint64_t>()[0] == std::uint64_t{1} << 63);
  CHECK(reduced("ReduceSum", large).values<std::uint64_t>()[0] == (std::uint64_t{1} << 63) + 5);
  const Tensor bools = tensor_of(DataType::boolean, {3}, {0, 1, 0});
  CHECK(doubles(reduced("ReduceMax", bools)) == std::vector<double>{1});
  CHECK(doubles(reduced("ReduceMin", bools)) == std::vector<double>{0});
}

TEST_CASE("CumProd of a long row, whose numbers are other than one at times") {
  std::vector<double> values(700, 1);
  values[3] = 2;
  values[255] = -3;
  values[256] = 0.5;
  values[690] = 4;
  for (const bool reverse : {false, true}) {
    std::vector<double> expected(values.size());
    double product = 1;
    for (std::size_t step = 0; step < values.size(); ++step) {
      const std::size_t i = reverse ? values.size() - 1 - step : step;
      expected[i] = product *= values[i];
    }
    const std::int64_t axis = 0;
    CHECK(doubles(run_node({"CumProd",
                            {{"reverse", std::int64_t{reverse}}},
                            {tensor_of(DataType::float32, {700}, values),
                             Tensor::of_int64({}, std::span(&axis, 1))},
                            {{DataType::float32, {700}}},
                            {1}})
                      .front()) == expected);
  }
}

TEST_CASE("CumProd of every type over an outer axis") {
  Random random(14);
  const Shape shape{2, 3, 40};
  for (const DataType type : number_types) {
    const Tensor x = random_in(type, shape, random, 1, 4);
    std::vector<double> expected(240);
    for (const Row& row : rows_of(x, 1)) {
      double product = 1;
      for (std::size_t i = 0; i < row.values.size(); ++i)
        expected[row.places[i]] = product *= row.values[i];
    }
    const std::int64_t axis = 1;
    CAPTURE(name_of(type));
    check_close(
        run_node(
            {"CumProd", {}, {x, Tensor::of_int64({}, std::span(&axis, 1))}, {{type, shape}}, {1}})
            .front(),
        expected);
  }
}

TEST_CASE("CumProd along every axis, either way, with and without its own element") {
  Random random(5);
  const Shape shape{3, 4, 5};
  for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                              DataType::int32, DataType::int64, DataType::uint8})
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true}) {
          const Tensor x = random_in(type, shape, random, 1, 4);
          std::vector<double> expected(60);
          for (Row row : rows_of(x, axis)) {
            if (reverse) {
              std::ranges::reverse(row.values);
              std::ranges::reverse(row.places);
            }
            double product = 1;
            for (std::size_t i = 0; i < row.values.size(); ++i) {
              expected[row.places[i]] = exclusive ? product : product * row.values[i];
              product *= row.values[i];
            }
          }
          if (type == DataType::uint8)
            for (double& value : expected)
              value = static_cast<double>(static_cast<int>(value) % 256);
          const auto place = static_cast<std::int64_t>(axis);
          CAPTURE(name_of(type), axis, exclusive, reverse);
          check_close(run_node({"CumProd",
                                {{"exclusive", std::int64_t{exclusive}},
                                 {"reverse", std::int64_t{reverse}}},
                                {x, Tensor::of_int64({}, std::span(&place, 1))},
                                {{type, shape}},
                                {1}})
                          .front(),
                      expected);
        }
}
