#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <set>

#include "unit/runtime/run_node.h"

namespace autopar::runtime {
namespace {

using namespace testing;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

bool close(double value, double truth, double tolerance) {
  if (std::isnan(truth)) return std::isnan(value);
  if (std::isinf(truth)) return value == truth;
  return std::fabs(value - truth) <= tolerance * std::max(1.0, std::fabs(truth));
}

using Unary = double (*)(double);
struct UnaryCase {
  std::string op_type;
  Unary truth;
  double low = -6;
  double high = 6;
  std::map<std::string, Attribute> attributes = {};
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases = {
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Sign", [](double x) { return double(x > 0) - double(x < 0); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }, 0, 50},
      {"Reciprocal", [](double x) { return 1 / x; }, 0.5, 8},
      {"Exp", [](double x) { return std::exp(x); }, -8, 4},
      {"Log", [](double x) { return std::log(x); }, 0.01, 50},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tan", [](double x) { return std::tan(x); }, -1, 1},
      {"Asin", [](double x) { return std::asin(x); }, -0.9, 0.9},
      {"Acos", [](double x) { return std::acos(x); }, -0.9, 0.9},
      {"Atan", [](double x) { return std::atan(x); }},
      {"Sinh", [](double x) { return std::sinh(x); }, -3, 3},
      {"Cosh", [](double x) { return std::cosh(x); }, -3, 3},
      {"Asinh", [](double x) { return std::asinh(x); }},
      {"Acosh", [](double x) { return std::acosh(x); }, 1.1, 9},
      {"Atanh", [](double x) { return std::atanh(x); }, -0.9, 0.9},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Sigmoid", sigmoid},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"LeakyRelu", [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"LeakyRelu", [](double x) { return x < 0 ? 0.25 * x : x; }, -6, 6, {{"alpha", 0.25F}}},
      {"ThresholdedRelu", [](double x) { return x > 2 ? x : 0; }, -6, 6, {{"alpha", 2.0F}}},
      {"Shrink",
       [](double x) { return x < -1  ? x + 0.5
                             : x > 1 ? x - 0.5
                                     : 0; },
       -6,
       6,
       {{"lambd", 1.0F}, {"bias", 0.5F}}},
      {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"Elu", [](double x) { return x < 0 ? 2 * std::expm1(x) : x; }, -6, 6, {{"alpha", 2.0F}}},
      {"Celu",
       [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
       -6,
       6,
       {{"alpha", 2.0F}}},
      {"Selu",
       [](double x) {
         return 1.05070102214813232421875 *
                (x <= 0 ? 1.67326319217681884765625 * std::expm1(x) : x);
       }},
      {"Gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Gelu",
       [](double x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       },
       -6,
       6,
       {{"approximate", std::string("tanh")}}},
      {"HardSigmoid", [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
      {"HardSwish", [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"Softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"Mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Swish", [](double x) { return x * sigmoid(x); }},
      {"Swish", [](double x) { return x * sigmoid(2 * x); }, -6, 6, {{"alpha", 2.0F}}},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
  };
  return cases;
}

TEST_CASE("Unary operators agree with double precision for every floating-point type") {
  std::mt19937 random(1);
  for (const UnaryCase& c : unary_cases())
    for (const DataType type : float_types) {
      const Tensor x = random_in(type, {3, 419}, random, c.low, c.high);
      const Tensor y = run_node({c.op_type, c.attributes, {x}, {{type, {3, 419}}}})[0];
      const auto in = doubles(x);
      const auto out = doubles(y);
      for (std::size_t i = 0; i < in.size(); ++i)
        if (!close(out[i], c.truth(in[i]), tolerance_of(type)))
          FAIL(c.op_type << " of " << name_of(type) << " " << in[i] << " is " << out[i] << ", not "
                         << c.truth(in[i]));
    }
}

TEST_CASE("Unary operators keep NaN, unless they say 0 of what is beyond no threshold") {
  for (const UnaryCase& c : unary_cases()) {
    const Tensor x = tensor_of(DataType::float32, {2}, {nan, 1.5});
    const Tensor y = run_node({c.op_type, c.attributes, {x}, {{DataType::float32, {2}}}})[0];
    CAPTURE(c.op_type);
    const bool keeps = c.op_type != "ThresholdedRelu" && c.op_type != "Shrink";
    CHECK((keeps ? std::isnan(doubles(y)[0]) : doubles(y)[0] == 0));
  }
}

TEST_CASE("Activations saturate instead of overflowing") {
  const Tensor x = tensor_of(DataType::float32, {4}, {-1000, -90, 90, 1000});
  const auto of = [&](const std::string& op_type) {
    return doubles(run_node({op_type, {}, {x}, {{DataType::float32, {4}}}})[0]);
  };
  CHECK(of("Sigmoid")[0] == 0);
  CHECK(of("Sigmoid")[1] < 1e-38);
  CHECK(of("Sigmoid")[3] == 1);
  CHECK(of("Tanh") == std::vector<double>{-1, -1, 1, 1});
  CHECK(of("Softplus")[3] == 1000);
  CHECK(of("Gelu") == std::vector<double>{0, 0, 90, 1000});
  CHECK(of("Swish")[0] == 0);
  CHECK(of("Mish")[3] == 1000);
}

TEST_CASE("Round goes half to even") {
  const Tensor x = tensor_of(DataType::float32, {6}, {0.5, 1.5, 2.5, -0.5, -1.5, -2.5});
  CHECK(doubles(run_node({"Round", {}, {x}, {{DataType::float32, {6}}}})[0]) ==
        std::vector<double>{0, 2, 2, 0, -2, -2});
}

// Broadcasting

Shape random_operand_shape(const Shape& to, std::mt19937& random) {
  Shape shape = to;
  for (auto& extent : shape)
    if (random() % 3 == 0) extent = 1;
  const auto dropped = static_cast<std::ptrdiff_t>(random() % (to.size() + 1));
  if (random() % 3 == 0) shape.erase(shape.begin(), shape.begin() + dropped);
  return shape;
}

/// The element of an operand that stands at flat index `i` of the output.
std::size_t operand_index(std::int64_t i, const Shape& to, const Shape& shape) {
  std::int64_t index = 0;
  std::int64_t stride = 1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const std::int64_t extent = to[to.size() - 1 - d];
    const std::int64_t position = i % extent;
    i /= extent;
    if (d >= shape.size()) continue;
    const std::int64_t own = shape[shape.size() - 1 - d];
    index += (own == 1 ? 0 : position) * stride;
    stride *= own;
  }
  return static_cast<std::size_t>(index);
}

TEST_CASE("Broadcasting agrees with index arithmetic on random shapes") {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    Shape to(random() % 6);
    for (auto& extent : to) extent = random() % 12 == 0 ? 0 : 1 + random() % 7;
    if (!to.empty() && round % 4 == 0) {  // few long rows
      to.resize(std::min<std::size_t>(to.size(), 2));
      to.back() = 1 + random() % 3000;
    }
    const DataType type = round % 2 == 0 ? DataType::float32 : DataType::float16;
    const Shape x_shape = random_operand_shape(to, random);
    const Shape y_shape = random_operand_shape(to, random);
    const Tensor c = random_in(DataType::boolean, random_operand_shape(to, random), random, 0, 1);
    const Tensor x = random_in(type, x_shape, random, -2, 2);
    const Tensor y = random_in(type, y_shape, random, -2, 2);
    const auto out = doubles(run_node({"Where", {}, {c, x, y}, {{type, to}}})[0]);
    const auto conditions = doubles(c);
    const auto xs = doubles(x);
    const auto ys = doubles(y);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const double truth = conditions[operand_index(at, to, c.shape())] != 0
                               ? xs[operand_index(at, to, x_shape)]
                               : ys[operand_index(at, to, y_shape)];
      if (out[i] != truth)
        FAIL("round " << round << ": " << graph::to_string(c.shape()) << ", "
                      << graph::to_string(x_shape) << ", " << graph::to_string(y_shape) << " to "
                      << graph::to_string(to) << " at " << i);
    }
  }
}

TEST_CASE("Threads share large tensors without changing a bit") {
  std::mt19937 random(3);
  for (const Shape& y_shape : {Shape{40, 1, 500}, Shape{500}, Shape{}, Shape{40, 7, 1}}) {
    const Tensor x = random_in(DataType::float32, {40, 7, 500}, random, -3, 3);
    const Tensor y = random_in(DataType::float32, y_shape, random, -3, 3);
    NodeRun node{"Mul", {}, {x, y}, {{DataType::float32, {40, 7, 500}}}};
    const auto one = doubles(run_node(node)[0]);
    node.threads = 3;
    CHECK(doubles(run_node(node)[0]) == one);
    const auto xs = doubles(x);
    const auto ys = doubles(y);
    for (std::int64_t i = 0; i < 40 * 7 * 500; i += 97) {
      const auto at = static_cast<std::size_t>(i);
      const double product = xs[at] * ys[operand_index(i, {40, 7, 500}, y_shape)];
      CHECK(one[at] == static_cast<double>(static_cast<float>(product)));
    }
  }
}

TEST_CASE("An operand that does not broadcast is an error that names the node") {
  const Tensor x = Tensor::zeros(DataType::float32, {2, 3});
  const Tensor y = Tensor::zeros(DataType::float32, {2, 2});
  CHECK_THROWS_WITH(
      run_node({"Add", {}, {x, y}, {{DataType::float32, {2, 3}}}}),
      Catch::Contains("the_node") && Catch::Contains("Add") && Catch::Contains("2x2"));
}

// Arithmetic

using Binary = double (*)(double, double);

void check_binary(const std::string& op_type, const std::vector<DataType>& types, Binary truth,
                  double low, double high, const std::map<std::string, Attribute>& attributes = {},
                  DataType result = DataType::undefined) {
  std::mt19937 random(4);
  for (const DataType type : types) {
    const bool is_unsigned = name_of(type)[0] == 'u';
    const Tensor x = random_in(type, {5, 60}, random, is_unsigned ? 0 : low, high);
    const Tensor y = random_in(type, {5, 60}, random, is_unsigned ? 0 : low, high);
    const DataType to = result == DataType::undefined ? type : result;
    const auto out = doubles(run_node({op_type, attributes, {x, y}, {{to, {5, 60}}}})[0]);
    const auto xs = doubles(x);
    const auto ys = doubles(y);
    const double tolerance = graph::is_floating_point(to) ? tolerance_of(to) : 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!close(out[i], truth(xs[i], ys[i]), tolerance))
        FAIL(name_of(type) << " " << xs[i] << " " << op_type << " " << ys[i] << " is " << out[i]);
  }
}

std::vector<DataType> all_numbers() {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  return types;
}

const std::vector<DataType> signed_numbers = {
    DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16,
    DataType::int8,    DataType::int16,   DataType::int32,   DataType::int64};

TEST_CASE("Arithmetic agrees with double precision for every type of number") {
  check_binary(
      "Add", all_numbers(), [](double x, double y) { return x + y; }, -50, 50);
  check_binary(
      "Sub", signed_numbers, [](double x, double y) { return x - y; }, -50, 50);
  check_binary(
      "Mul", all_numbers(), [](double x, double y) { return x * y; }, -11, 11);
  check_binary(
      "Min", all_numbers(), [](double x, double y) { return std::min(x, y); }, -9, 9);
  check_binary(
      "Max", all_numbers(), [](double x, double y) { return std::max(x, y); }, -9, 9);
  check_binary(
      "Div", float_types, [](double x, double y) { return x / y; }, 1, 9);
  check_binary(
      "PRelu", signed_numbers, [](double x, double y) { return x < 0 ? x * y : x; }, -9, 9);
  check_binary(
      "Pow", float_types, [](double x, double y) { return std::pow(x, y); }, 0.1, 3);
  check_binary(
      "Pow", integer_types, [](double x, double y) { return std::pow(x, y); }, 0, 3);
}

TEST_CASE("Integer division truncates and by zero gives zero") {
  check_binary(
      "Div", integer_types, [](double x, double y) { return y == 0 ? 0 : std::trunc(x / y); }, -9,
      9);
}

TEST_CASE("Mod has the divisor's sign, with fmod the dividend's") {
  check_binary(
      "Mod", integer_types,
      [](double x, double y) { return y == 0 ? 0 : x - y * std::floor(x / y); }, -9, 9);
  check_binary("Mod", integer_types,
               [](double x, double y) { return y == 0 ? 0 : std::fmod(x, y); }, -9, 9,
               {{"fmod", std::int64_t{1}}});
  check_binary("Mod", float_types, [](double x, double y) { return std::fmod(x, y); }, -9, 9,
               {{"fmod", std::int64_t{1}}});
}

TEST_CASE("Integer overflow wraps, and the least integer divided by -1 as well") {
  const auto least = std::numeric_limits<std::int32_t>::min();
  const Tensor x = tensor_of(DataType::int32, {2}, {double(least), 2147483647});
  const Tensor y = tensor_of(DataType::int32, {2}, {-1, 1});
  const auto run_on = [&](const std::string& op_type) {
    return run_node({op_type, {}, {x, y}, {{DataType::int32, {2}}}})[0].to_int64s();
  };
  CHECK(run_on("Add") == std::vector<std::int64_t>{2147483647, least});
  CHECK(run_on("Sub") == std::vector<std::int64_t>{least + 1, 2147483646});
  CHECK(run_on("Mul") == std::vector<std::int64_t>{least, 2147483647});
  CHECK(run_on("Div") == std::vector<std::int64_t>{least, 2147483647});
  CHECK(run_on("Mod") == std::vector<std::int64_t>{0, 0});
  const Tensor u = tensor_of(DataType::uint16, {1}, {65535});
  CHECK(run_node({"Mul", {}, {u, u}, {{DataType::uint16, {1}}}})[0].to_int64s()[0] == 1);
}

TEST_CASE("Pow takes an exponent of another type and has the base's type") {
  const auto power = [](DataType base, const std::vector<double>& x, DataType exponent,
                        const std::vector<double>& y) {
    const Shape x_shape{static_cast<std::int64_t>(x.size())};
    const Shape y_shape{static_cast<std::int64_t>(y.size())};
    return doubles(run_node({"Pow",
                             {},
                             {tensor_of(base, x_shape, x), tensor_of(exponent, y_shape, y)},
                             {{base, x_shape}}})[0]);
  };
  CHECK(power(DataType::float32, {2, -3}, DataType::int64, {3}) == std::vector<double>{8, -27});
  CHECK(power(DataType::float32, {2, -3}, DataType::int64, {2}) == std::vector<double>{4, 9});
  CHECK(power(DataType::int32, {16, 9}, DataType::float32, {0.5}) == std::vector<double>{4, 3});
  CHECK(power(DataType::int32, {3, 7, 49}, DataType::float32, {1.5}) ==
        std::vector<double>{5, 18, 343});
  CHECK(power(DataType::int64, {3, 7, 11}, DataType::float64, {9}) ==
        std::vector<double>{19683, 40353607, 2357947691});
  CHECK(power(DataType::int64, {2, -1, 1}, DataType::int32, {-3}) == std::vector<double>{0, -1, 1});
  CHECK(power(DataType::float16, {3}, DataType::float32, {4}) == std::vector<double>{81});
}

TEST_CASE("NaN goes through Min, Max and Clip, and the other operators' zeros divide") {
  const Tensor x = tensor_of(DataType::float32, {3}, {nan, 1, 1});
  const Tensor y = tensor_of(DataType::float32, {3}, {1, nan, 0});
  for (const char* op_type : {"Min", "Max"}) {
    const auto out = doubles(run_node({op_type, {}, {x, y}, {{DataType::float32, {3}}}})[0]);
    CHECK(std::isnan(out[0]));
    CHECK(std::isnan(out[1]));
  }
  const auto quotient = doubles(run_node({"Div", {}, {x, y}, {{DataType::float32, {3}}}})[0]);
  CHECK(quotient[2] == infinity);
  const Tensor low = tensor_of(DataType::float32, {}, {0});
  CHECK(std::isnan(doubles(run_node({"Clip", {}, {x, low}, {{DataType::float32, {3}}}})[0])[0]));
}

TEST_CASE("Clip's bounds may each be left out") {
  for (const DataType type : all_numbers()) {
    const Tensor x = tensor_of(type, {4}, {0, 3, 5, 9});
    const Tensor low = tensor_of(type, {}, {3});
    const Tensor high = tensor_of(type, {}, {5});
    const auto clip = [&](std::vector<std::optional<Tensor>> inputs) {
      return doubles(run_node({"Clip", {}, std::move(inputs), {{type, {4}}}})[0]);
    };
    CAPTURE(name_of(type));
    CHECK(clip({x}) == std::vector<double>{0, 3, 5, 9});
    CHECK(clip({x, low}) == std::vector<double>{3, 3, 5, 9});
    CHECK(clip({x, std::nullopt, high}) == std::vector<double>{0, 3, 5, 5});
    CHECK(clip({x, low, high}) == std::vector<double>{3, 3, 5, 5});
  }
}

TEST_CASE("Variadic operators take one operand and many") {
  for (const DataType type : float_types) {
    const Tensor a = tensor_of(type, {2, 1}, {1, 6});
    const Tensor b = tensor_of(type, {3}, {2, 4, 8});
    const Tensor c = tensor_of(type, {}, {3});
    const auto of = [&](const std::string& op_type, std::vector<std::optional<Tensor>> inputs,
                        const Shape& shape) {
      return doubles(run_node({op_type, {}, std::move(inputs), {{type, shape}}})[0]);
    };
    CHECK(of("Sum", {a, b, c}, {2, 3}) == std::vector<double>{6, 8, 12, 11, 13, 17});
    CHECK(of("Max", {a, b, c}, {2, 3}) == std::vector<double>{3, 4, 8, 6, 6, 8});
    CHECK(of("Min", {a, b, c}, {2, 3}) == std::vector<double>{1, 1, 1, 2, 3, 3});
    CHECK(of("Mean", {a, b}, {2, 3}) == std::vector<double>{1.5, 2.5, 4.5, 4, 5, 7});
    for (const char* op_type : {"Sum", "Max", "Min", "Mean"})
      CHECK(of(op_type, {b}, {3}) == std::vector<double>{2, 4, 8});
  }
}

TEST_CASE("Variadic operators take more operands than a kernel's program") {
  for (const std::size_t operands : {8U, 9U, 15U, 16U, 40U})
    for (const DataType type : float_types) {
      std::vector<std::optional<Tensor>> inputs;
      double sum = 0;
      for (std::size_t i = 0; i < operands; ++i) {
        const auto number = static_cast<double>((i * 7) % operands);  // each once
        sum += number;
        inputs.emplace_back(i % 2 == 0 ? tensor_of(type, {2, 1}, {number, -number})
                                       : tensor_of(type, {}, {number}));
      }
      double other_sum = 0;
      double least = 0;
      for (std::size_t i = 0; i < operands; ++i) {
        const auto number = static_cast<double>((i * 7) % operands);
        other_sum += i % 2 == 0 ? -number : number;
        least = std::min(least, i % 2 == 0 ? -number : number);
      }
      const auto of = [&](const std::string& op_type) {
        return doubles(run_node({op_type, {}, inputs, {{type, {2, 1}}}})[0]);
      };
      const auto count = static_cast<double>(operands);
      CAPTURE(operands, name_of(type));
      CHECK(of("Sum") == std::vector<double>{sum, other_sum});
      CHECK_THAT(of("Mean")[0], Catch::WithinRel(sum / count, 0.005));
      CHECK(of("Min") == std::vector<double>{0, least});
      CHECK(of("Max")[0] == count - 1);
    }
}

// Logic

TEST_CASE("Comparisons of every type, false with NaN") {
  std::vector<DataType> types = all_numbers();
  const auto check_comparison = [&](const std::string& op_type, Binary truth) {
    check_binary(op_type, types, truth, -3, 3, {}, DataType::boolean);
    const Tensor x = tensor_of(DataType::float32, {2}, {nan, 1});
    const Tensor y = tensor_of(DataType::float32, {2}, {nan, nan});
    CHECK(doubles(run_node({op_type, {}, {x, y}, {{DataType::boolean, {2}}}})[0]) ==
          std::vector<double>{0, 0});
  };
  check_comparison("Equal", [](double x, double y) { return double(x == y); });
  check_comparison("Less", [](double x, double y) { return double(x < y); });
  check_comparison("LessOrEqual", [](double x, double y) { return double(x <= y); });
  check_comparison("Greater", [](double x, double y) { return double(x > y); });
  check_comparison("GreaterOrEqual", [](double x, double y) { return double(x >= y); });
}

TEST_CASE("Logic takes any byte but zero as true") {
  const Tensor x = tensor_of(DataType::boolean, {4}, {0, 0, 1, 255});
  const Tensor y = tensor_of(DataType::boolean, {4}, {0, 7, 0, 2});
  const auto of = [&](const std::string& op_type) {
    return doubles(run_node({op_type, {}, {x, y}, {{DataType::boolean, {4}}}})[0]);
  };
  CHECK(of("And") == std::vector<double>{0, 0, 0, 1});
  CHECK(of("Or") == std::vector<double>{0, 1, 1, 1});
  CHECK(of("Xor") == std::vector<double>{0, 1, 1, 0});
  CHECK(of("Equal") == std::vector<double>{1, 0, 0, 1});
  CHECK(doubles(run_node({"Not", {}, {x}, {{DataType::boolean, {4}}}})[0]) ==
        std::vector<double>{1, 1, 0, 0});
}

TEST_CASE("IsNaN and IsInf") {
  for (const DataType type : float_types) {
    const Tensor x = tensor_of(type, {4}, {nan, infinity, -infinity, 1});
    const auto of = [&](const std::string& op_type,
                        const std::map<std::string, Attribute>& attributes) {
      return doubles(run_node({op_type, attributes, {x}, {{DataType::boolean, {4}}}})[0]);
    };
    CHECK(of("IsNaN", {}) == std::vector<double>{1, 0, 0, 0});
    CHECK(of("IsInf", {}) == std::vector<double>{0, 1, 1, 0});
    CHECK(of("IsInf", {{"detect_negative", std::int64_t{0}}}) == std::vector<double>{0, 1, 0, 0});
    CHECK(of("IsInf", {{"detect_positive", std::int64_t{0}}}) == std::vector<double>{0, 0, 1, 0});
  }
}

TEST_CASE("Where picks values of every type") {
  std::vector<DataType> types = all_numbers();
  types.push_back(DataType::boolean);
  for (const DataType type : types) {
    const Tensor c = tensor_of(DataType::boolean, {2, 1}, {0, 1});
    const Tensor x = tensor_of(type, {3}, {1, 0, 1});
    const Tensor y = tensor_of(type, {}, {0});
    CHECK(doubles(run_node({"Where", {}, {c, x, y}, {{type, {2, 3}}}})[0]) ==
          std::vector<double>{0, 0, 0, 1, 0, 1});
  }
}

TEST_CASE("Bitwise operators and shifts") {
  check_binary(
      "BitwiseAnd", integer_types,
      [](double x, double y) { return double(std::int64_t(x) & std::int64_t(y)); }, -9, 9);
  check_binary(
      "BitwiseOr", integer_types,
      [](double x, double y) { return double(std::int64_t(x) | std::int64_t(y)); }, -9, 9);
  check_binary(
      "BitwiseXor", integer_types,
      [](double x, double y) { return double(std::int64_t(x) ^ std::int64_t(y)); }, -9, 9);
  const Tensor x = tensor_of(DataType::uint8, {4}, {1, 200, 200, 255});
  const Tensor y = tensor_of(DataType::uint8, {4}, {3, 1, 8, 0});
  const auto shift = [&](const std::string& direction) {
    return doubles(
        run_node({"BitShift", {{"direction", direction}}, {x, y}, {{DataType::uint8, {4}}}})[0]);
  };
  CHECK(shift("LEFT") == std::vector<double>{8, 144, 0, 255});
  CHECK(shift("RIGHT") == std::vector<double>{0, 100, 0, 255});
  CHECK(doubles(run_node({"BitwiseNot", {}, {x}, {{DataType::uint8, {4}}}})[0]) ==
        std::vector<double>{254, 55, 55, 0});
}

TEST_CASE("Shifts of signed integers keep the sign, however far") {
  for (const DataType type : {DataType::int8, DataType::int16, DataType::int32, DataType::int64}) {
    const int bits = graph::bits_of(type);
    const Tensor x = tensor_of(type, {6}, {-8, 4, -1, -8, 1, -3});
    const Tensor y = tensor_of(type, {6}, {1, double(bits), 127, -1, double(bits) - 1, 0});
    const auto shift = [&](const std::string& direction) {
      return doubles(run_node({"BitShift", {{"direction", direction}}, {x, y}, {{type, {6}}}})[0]);
    };
    CAPTURE(name_of(type));
    CHECK(shift("RIGHT") == std::vector<double>{-4, 0, -1, -1, 0, -3});
    CHECK(shift("LEFT") == std::vector<double>{-16, 0, 0, 0, -std::ldexp(1, bits - 1), -3});
  }
}

// Cast

TEST_CASE("Cast between all types keeps what both can hold") {
  std::vector<DataType> types = all_numbers();
  types.push_back(DataType::boolean);
  for (const DataType from : types)
    for (const DataType to : types) {
      const Tensor x = tensor_of(from, {4}, {0, 1, 1, 0});
      CAPTURE(name_of(from), name_of(to));
      CHECK(doubles(run_node({"Cast", {{"to", std::int64_t(to)}}, {x}, {{to, {4}}}})[0]) ==
            std::vector<double>{0, 1, 1, 0});
      const Tensor like = Tensor::zeros(to, {1});
      CHECK(doubles(run_node({"CastLike", {}, {x, like}, {{to, {4}}}})[0]) ==
            std::vector<double>{0, 1, 1, 0});
      const double most =
          std::min(from == DataType::boolean ? 1.0 : 100.0, to == DataType::boolean ? 1.0 : 100.0);
      const Tensor large = tensor_of(from, {1}, {most});
      CHECK(doubles(run_node({"Cast", {}, {large}, {{to, {1}}}})[0])[0] == most);
    }
}

TEST_CASE("Cast of floats truncates, saturates, and makes bools of what is not zero") {
  const Tensor x = tensor_of(DataType::float32, {6}, {-1.7, 1.7, 0.5, 1e30, -1e30, nan});
  const auto to = [&](DataType type) {
    return run_node({"Cast", {}, {x}, {{type, {6}}}})[0].to_int64s();
  };
  CHECK(to(DataType::int32) == std::vector<std::int64_t>{-1, 1, 0, 2147483647, -2147483648LL, 0});
  CHECK(to(DataType::int64)[3] == std::numeric_limits<std::int64_t>::max());
  CHECK(to(DataType::int64)[4] == std::numeric_limits<std::int64_t>::min());
  CHECK(to(DataType::uint8) == std::vector<std::int64_t>{0, 1, 0, 255, 0, 0});
  CHECK(to(DataType::boolean) == std::vector<std::int64_t>{1, 1, 1, 1, 1, 1});
  const Tensor wide = tensor_of(DataType::int64, {2}, {300, -1});
  CHECK(run_node({"Cast", {}, {wide}, {{DataType::uint8, {2}}}})[0].to_int64s() ==
        std::vector<std::int64_t>{44, 255});
}

TEST_CASE("A type that an operator does not serve is an error that names node, operator and type") {
  const Tensor x = Tensor::zeros(DataType::int32, {2});
  CHECK_THROWS_WITH(
      run_node({"Exp", {}, {x}, {{DataType::int32, {2}}}}),
      Catch::Contains("the_node") && Catch::Contains("Exp") && Catch::Contains("int32"));
  const Tensor f = Tensor::zeros(DataType::float32, {2});
  CHECK_THROWS_WITH(
      run_node({"Gelu", {{"approximate", std::string("quick")}}, {f}, {{DataType::float32, {2}}}}),
      Catch::Contains("the_node") && Catch::Contains("Gelu"));
}

TEST_CASE("Empty tensors go through") {
  const Tensor x = Tensor::zeros(DataType::float32, {0, 3});
  const Tensor y = Tensor::zeros(DataType::float32, {3});
  CHECK(run_node({"Add", {}, {x, y}, {{DataType::float32, {0, 3}}}})[0].elements() == 0);
  CHECK(run_node({"Gelu", {}, {x}, {{DataType::float32, {0, 3}}}})[0].elements() == 0);
}

TEST_CASE("Every operator of the list is there once") {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const KernelEntry& entry : cpu_kernels().entries)
    CHECK(seen.insert({entry.domain, entry.op_type}).second);
  CHECK(cpu_kernels().find("", "Add") != nullptr);
  CHECK(cpu_kernels().find("com.example", "Add") == nullptr);
}

}  // namespace
}  // namespace autopar::runtime
