// Reductions against loops in double.

#include <cmath>
#include <functional>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

TEST_CASE("reductions over every set of dimensions equal a loop") {
  Random random(6);
  const Shape shape = GENERATE(Shape{2, 3, 4}, Shape{3, 2, 70}, Shape{2, 3, 1200});
  const Tensor x = random_floats(random, shape);
  for (int set = 1; set < 8; ++set) {
    std::vector<std::int64_t> axes;
    Shape out = shape;
    for (std::size_t d = 0; d < 3; ++d) {
      if ((set >> d & 1) == 0) continue;
      axes.push_back(static_cast<std::int64_t>(d) - 3);
      out[d] = 1;
    }
    std::vector<double> sum(static_cast<std::size_t>(graph::num_elements(out)), 0);
    std::vector<double> largest(sum.size(), -1e30);
    for_each_index(shape, [&](const Shape& index) {
      std::size_t place = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        place = place * static_cast<std::size_t>(out[d]) +
                static_cast<std::size_t>(out[d] == 1 ? 0 : index[d]);
      }
      sum[place] += at(x, index);
      largest[place] = std::max(largest[place], at(x, index));
    });
    std::vector<double> mean = sum;
    for (double& each : mean)
      each *= static_cast<double>(sum.size()) / static_cast<double>(x.elements());
    const Tensor axes_tensor = Tensor::of_int64({static_cast<std::int64_t>(axes.size())}, axes);
    const auto reduced = [&](const char* op_type) {
      return run_floats({op_type, {}, {x, axes_tensor}, {{DataType::float32, out}}, {1}});
    };
    check_close(reduced("ReduceSum"), sum);
    check_close(reduced("ReduceMean"), mean);
    check_close(reduced("ReduceMax"), largest);
  }
}

TEST_CASE("Every reduction of every type, of few rows and of many, equals a loop") {
  struct Line {
    const char* op_type;
    double start;
    std::function<double(double, double)> take;
    std::function<double(double, double)> finish;
  };
  const auto keep = [](double sum, double) { return sum; };
  const std::vector<Line> lines = {
      {"ReduceSum", 0, [](double s, double x) { return s + x; }, keep},
      {"ReduceMean", 0, [](double s, double x) { return s + x; },
       [](double s, double n) { return s / n; }},
      {"ReduceProd", 1, [](double s, double x) { return s * x; }, keep},
      {"ReduceMax", -1e9, [](double s, double x) { return std::max(s, x); }, keep},
      {"ReduceMin", 1e9, [](double s, double x) { return std::min(s, x); }, keep},
      {"ReduceSumSquare", 0, [](double s, double x) { return s + x * x; }, keep},
      {"ReduceL1", 0, [](double s, double x) { return s + std::fabs(x); }, keep},
      {"ReduceL2", 0, [](double s, double x) { return s + x * x; },
       [](double s, double) { return std::sqrt(s); }}};
  Random random(7);
  for (const Line& line : lines) {
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                DataType::bfloat16, DataType::int32, DataType::int64}) {
      for (const auto& [outer, extent, inner] : std::vector<std::array<std::int64_t, 3>>{
               {3, 5, 1}, {2, 700, 1}, {2, 7, 2200}, {5, 1, 3}, {1, 3000, 1}, {2, 20000, 1}}) {
        const bool is_integer = !graph::is_floating_point(type);
        if (is_integer && std::string(line.op_type) == "ReduceL2") continue;  // rounds down
        // One or minus one, so that products neither vanish nor overflow.
        const Tensor drawn = random_in(type, {outer, extent, inner}, random, 0, 2);
        std::vector<double> values = doubles(drawn);
        for (double& x : values) x = x < 1 ? -1 : 1;
        const Tensor x = tensor_of(type, {outer, extent, inner}, values);
        std::vector<double> expected;
        for (std::int64_t o = 0; o < outer; ++o) {
          for (std::int64_t i = 0; i < inner; ++i) {
            double result = line.start;
            for (std::int64_t e = 0; e < extent; ++e)
              result =
                  line.take(result, values[static_cast<std::size_t>((o * extent + e) * inner + i)]);
            result = line.finish(result, static_cast<double>(extent));
            expected.push_back(is_integer ? std::trunc(result) : result);
          }
        }
        CAPTURE(line.op_type, name_of(type), outer, extent, inner);
        const std::vector<std::int64_t> axis{1};
        check_close(run_node({line.op_type,
                              {{"keepdims", std::int64_t{0}}},
                              {x, Tensor::of_int64({1}, axis)},
                              {{type, {outer, inner}}},
                              {1},
                              3})
                        .front(),
                    expected);
      }
    }
  }
}

TEST_CASE("Reductions of every type, of a few rows that are long enough for several parts") {
  Random random(8);
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  const std::int64_t extent = 9000;
  for (const DataType type : types) {
    // Few are not zero, so that sums fit into 8 bits.
    std::vector<double> values(2 * extent, 0);
    for (int i = 0; i < 60; ++i) values[random() % values.size()] = 1;
    values[4321] = 2;
    values[extent + 8765] = 3;
    const Tensor x = tensor_of(type, {2, extent}, values);
    std::vector<double> sum(2, 0);
    std::vector<double> squares(2, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum[i / extent] += values[i];
      squares[i / extent] += values[i] * values[i];
    }
    for (double& value : values) value = value == 0 ? 1 : value;
    const Tensor factors = tensor_of(type, {2, extent}, values);
    const auto check = [&](const std::string& op_type, std::vector<double> expected) {
      if (!graph::is_floating_point(type))
        for (double& value : expected) value = std::trunc(value);
      const std::vector<std::int64_t> axis{1};
      CAPTURE(op_type, name_of(type));
      check_close(run_node({op_type,
                            {{"keepdims", std::int64_t{0}}},
                            {op_type == "ReduceProd" ? factors : x, Tensor::of_int64({1}, axis)},
                            {{type, {2}}},
                            {1}})
                      .front(),
                  expected);
    };
    check("ReduceSum", sum);
    check("ReduceL1", sum);
    check("ReduceMean", {sum[0] / extent, sum[1] / extent});
    check("ReduceProd", {2, 3});
    check("ReduceMax", {2, 3});
    check("ReduceMin", {0, 0});
    check("ReduceSumSquare", squares);
    check("ReduceL2", {std::sqrt(squares[0]), std::sqrt(squares[1])});
    check("ReduceLogSum", {std::log(sum[0]), std::log(sum[1])});
  }
}

TEST_CASE("NaN stays in maxima and minima, and reductions of nothing give their start") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values(40000, 1);
  values[33333] = nan;
  for (const char* op_type : {"ReduceMax", "ReduceMin"}) {
    const Tensor x = tensor_of(DataType::float32, {2, 20000}, values);
    const std::vector<std::int64_t> axis{1};
    const auto y = doubles(
        run_node(
            {op_type, {}, {x, Tensor::of_int64({1}, axis)}, {{DataType::float32, {2, 1}}}, {1}, 3})
            .front());
    CHECK(y[0] == 1);
    CHECK(std::isnan(y[1]));
  }
  const auto of_nothing = [](const char* op_type, DataType type) {
    const Tensor nothing = Tensor::zeros(type, {3, 0});
    const std::vector<std::int64_t> axis{1};
    const auto found = doubles(
        run_node({op_type, {}, {nothing, Tensor::of_int64({1}, axis)}, {{type, {3, 1}}}, {1}})
            .front());
    CHECK(found == std::vector<double>(3, found.at(0)));
    return found.at(0);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(of_nothing("ReduceSum", DataType::float32) == 0);
  CHECK(of_nothing("ReduceMax", DataType::float16) == -infinity);
  CHECK(of_nothing("ReduceMin", DataType::float32) == infinity);
  CHECK(of_nothing("ReduceMax", DataType::int32) == -2147483648.0);
  CHECK(of_nothing("ReduceMin", DataType::int32) == 2147483647.0);
  CHECK(of_nothing("ReduceMax", DataType::uint8) == 0);
  CHECK(of_nothing("ReduceMin", DataType::int8) == 127);
}
