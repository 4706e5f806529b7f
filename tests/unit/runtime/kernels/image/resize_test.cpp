// Resize against a sum over each element's neighbours, as the operator's documentation has it.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Matchers::Contains;
using Random = std::mt19937;

namespace {

struct Case {
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  bool antialias = false;
  bool exclude_outside = false;
  float cubic_a = -0.75F;
};

/// One dimension of a case.
struct Dimension {
  double in = 1;
  double out = 1;
  double scale = 1;
  double begin = 0;
  double end = 1;
};

double coordinate(const Case& of, const Dimension& d, double x) {
  const double length = d.scale * d.in;
  if (of.coordinates == "half_pixel") return (x + 0.5) / d.scale - 0.5;
  if (of.coordinates == "asymmetric") return x / d.scale;
  if (of.coordinates == "pytorch_half_pixel") return length == 1 ? 0 : (x + 0.5) / d.scale - 0.5;
  if (of.coordinates == "align_corners") return length == 1 ? 0 : x * (d.in - 1) / (length - 1);
  if (of.coordinates == "half_pixel_symmetric")
    return d.in / 2 * (1 - d.out / length) + (x + 0.5) / d.scale - 0.5;
  if (length == 1) return 0.5 * (d.begin + d.end) * (d.in - 1);
  return d.begin * (d.in - 1) + x * (d.end - d.begin) * (d.in - 1) / (length - 1);
}

double kernel(const Case& of, double x) {
  x = std::abs(x);
  if (of.mode == "linear") return x < 1 ? 1 - x : 0;
  const auto a = static_cast<double>(of.cubic_a);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

/// Weights of the places of one dimension; empty where the result is extrapolated.
std::map<std::int64_t, double> neighbours(const Case& of, const Dimension& d, std::int64_t place) {
  const double x = coordinate(of, d, static_cast<double>(place));
  const auto last = static_cast<std::int64_t>(d.in) - 1;
  if (of.coordinates == "tf_crop_and_resize" && (x < 0 || x > d.in - 1)) return {};
  if (of.mode == "nearest") {
    const double fraction = x - std::floor(x);
    double near = fraction < 0.5 ? std::floor(x) : std::ceil(x);
    if (fraction == 0.5 && of.nearest == "round_prefer_floor") near = std::floor(x);
    if (of.nearest == "floor") near = std::floor(x);
    if (of.nearest == "ceil") near = std::ceil(x);
    return {{std::clamp<std::int64_t>(static_cast<std::int64_t>(near), 0, last), 1.0}};
  }
  const double shrink = of.antialias ? std::min(d.scale, 1.0) : 1.0;
  const double reach = (of.mode == "linear" ? 1 : 2) / shrink;
  std::map<std::int64_t, double> weights;
  double sum = 0;
  for (auto i = static_cast<std::int64_t>(std::floor(x - reach));
       static_cast<double>(i) <= std::ceil(x + reach); ++i) {
    const double weight = kernel(of, (static_cast<double>(i) - x) * shrink);
    if (weight == 0 || (of.exclude_outside && (i < 0 || i > last))) continue;
    weights[std::clamp<std::int64_t>(i, 0, last)] += weight;
    sum += weight;
  }
  if (of.antialias || of.exclude_outside)
    for (auto& [at, weight] : weights) weight /= sum;
  return weights;
}

std::vector<double> resized(const Case& of, const Tensor& in, const std::vector<Dimension>& dims,
                            const Shape& out, double extrapolation) {
  std::vector<double> result;
  for_each_index(out, [&](const Shape& index) {
    std::vector<std::pair<Shape, double>> parts = {{{}, 1.0}};
    bool is_outside = false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto along = neighbours(of, dims[d], index[d]);
      is_outside = is_outside || along.empty();
      std::vector<std::pair<Shape, double>> next;
      for (const auto& [head, weight] : parts)
        for (const auto& [place, factor] : along)
          next.emplace_back(joined(head, {place}), weight * factor);
      parts = std::move(next);
    }
    double sum = 0;
    for (const auto& [place, weight] : parts) sum += weight * at(in, place);
    result.push_back(is_outside ? extrapolation : sum);
  });
  return result;
}

const std::vector<std::string> coordinate_modes = {"half_pixel",         "half_pixel_symmetric",
                                                   "pytorch_half_pixel", "align_corners",
                                                   "asymmetric",         "tf_crop_and_resize"};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& coordinates : coordinate_modes) {
    for (const std::string nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      cases.push_back({.mode = "nearest", .coordinates = coordinates, .nearest = nearest});
    for (const std::string mode : {"linear", "cubic"})
      for (const bool antialias : {false, true})
        for (const bool exclude : {false, true})
          cases.push_back({.mode = mode,
                           .coordinates = coordinates,
                           .antialias = antialias,
                           .exclude_outside = exclude,
                           .cubic_a = exclude ? -0.5F : -0.75F});
  }
  return cases;
}

/// A node that resizes `in`, with what it should give.
struct Expectation {
  NodeRun node;
  std::vector<double> values;
};

Expectation random_resize(Random& random, const Case& of, DataType type, bool by_scales) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const auto rank = static_cast<std::size_t>(pick(1, 4));
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(pick(1, 6));
  Integers axes;
  for (std::size_t d = rank; d-- > 0;)
    if (pick(0, 2) > 0) axes.push_back(static_cast<std::int64_t>(d));
  if (axes.empty()) axes.push_back(0);
  std::vector<Dimension> dims(rank);
  for (std::size_t d = 0; d < rank; ++d) dims[d].in = dims[d].out = static_cast<double>(shape[d]);
  Shape out = shape;
  std::vector<float> scales;
  Integers sizes;
  std::vector<float> roi(2 * axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    const auto eighths = static_cast<float>(pick(4, 20));
    scales.push_back(eighths / 8);
    sizes.push_back(pick(1, 9));
    out[d] =
        by_scales
            ? static_cast<std::int64_t>(std::floor(static_cast<float>(shape[d]) * scales.back()))
            : sizes.back();
    dims[d].out = static_cast<double>(out[d]);
    dims[d].scale = by_scales ? static_cast<double>(scales.back()) : dims[d].out / dims[d].in;
    roi[i] = static_cast<float>(pick(-2, 3)) / 8;
    roi[axes.size() + i] = static_cast<float>(pick(5, 10)) / 8;
    if (of.coordinates == "tf_crop_and_resize") {
      dims[d].begin = static_cast<double>(roi[i]);
      dims[d].end = static_cast<double>(roi[axes.size() + i]);
    }
  }
  const auto n = static_cast<std::int64_t>(axes.size());
  const Tensor in = random_in(type, shape, random, 0, 9);
  NodeRun node{"Resize",
               {{"mode", of.mode},
                {"coordinate_transformation_mode", of.coordinates},
                {"nearest_mode", of.nearest},
                {"antialias", std::int64_t{of.antialias}},
                {"exclude_outside", std::int64_t{of.exclude_outside}},
                {"cubic_coeff_a", of.cubic_a},
                {"extrapolation_value", 7.0F},
                {"axes", axes}},
               {in, Tensor::of_float({2 * n}, roi)},
               {{type, out}},
               {1, 2}};
  if (by_scales) {
    node.inputs.emplace_back(Tensor::of_float({n}, scales));
  } else {
    node.inputs.emplace_back(std::nullopt);
    node.inputs.emplace_back(Tensor::of_int64({n}, sizes));
    node.constants = {1, 3};
  }
  return {node, resized(of, in, dims, out, 7)};
}

}  // namespace

TEST_CASE("Resize equals a sum over neighbours in every mode") {
  Random random(1);
  for (const Case& of : all_cases())
    for (const bool by_scales : {false, true})
      for (const DataType type : float_types)
        for (int round = 0; round < 4; ++round) {
          const Expectation expected = random_resize(random, of, type, by_scales);
          CAPTURE(of.mode, of.coordinates, of.nearest, of.antialias, of.exclude_outside, by_scales);
          check_close(run_node(expected.node).front(), expected.values, 9);
        }
}

TEST_CASE("Resize of integers takes the nearest, or rounds and stays within the type") {
  Random random(2);
  for (const DataType type : integer_types)
    for (const std::string mode : {"nearest", "linear", "cubic"})
      for (int round = 0; round < 20; ++round) {
        const Case of{.mode = mode};
        const Expectation expected = random_resize(random, of, type, true);
        const auto actual = doubles(run_node(expected.node).front());
        const bool is_unsigned = type == DataType::uint8 || type == DataType::uint16 ||
                                 type == DataType::uint32 || type == DataType::uint64;
        REQUIRE(actual.size() == expected.values.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          const double value = is_unsigned ? std::max(0.0, expected.values[i]) : expected.values[i];
          CAPTURE(mode, name_of(type), value);
          CHECK(actual[i] == std::round(actual[i]));
          CHECK(std::abs(actual[i] - value) <= 0.5 + 1e-5);
        }
      }
}

TEST_CASE("Resize of bools and of tensors of many dimensions takes the nearest") {
  Random random(3);
  const Tensor bools = random_in(DataType::boolean, {3, 4}, random, 0, 1);
  const auto doubled =
      run_node({"Resize",
                {{"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}},
                {bools, std::nullopt, Tensor::of_float({2}, std::vector<float>{2, 2})},
                {{DataType::boolean, {6, 8}}},
                {2}})
          .front();
  for_each_index({6, 8}, [&](const Shape& index) {
    CHECK(at(doubled, index) == at(bools, {index[0] / 2, index[1] / 2}));
  });
  const Shape shape{1, 2, 1, 2, 1, 2, 2};
  const Tensor in = random_in(DataType::float32, shape, random, -1, 1);
  const Shape out{1, 2, 1, 4, 1, 2, 6};
  const auto larger = run_node({"Resize",
                                {{"coordinate_transformation_mode", std::string("asymmetric")},
                                 {"nearest_mode", std::string("floor")}},
                                {in, std::nullopt, std::nullopt, Tensor::of_int64({7}, out)},
                                {{DataType::float32, out}},
                                {3}})
                          .front();
  for_each_index(out, [&](Shape index) {
    const double value = at(larger, index);
    index[3] /= 2;
    index[6] /= 3;
    CHECK(value == at(in, index));
  });
}

TEST_CASE("Resize keeps the aspect ratio by the smallest or the largest scale") {
  Random random(4);
  const Tensor in = random_in(DataType::float32, {4, 6}, random, -1, 1);
  for (const auto& [policy, out] : {std::pair{std::string("not_larger"), Shape{7, 10}},
                                    std::pair{std::string("not_smaller"), Shape{8, 12}}}) {
    const double scale = policy == "not_larger" ? 10.0 / 6 : 2.0;
    const std::vector<Dimension> dims = {{4, static_cast<double>(out[0]), scale, 0, 1},
                                         {6, static_cast<double>(out[1]), scale, 0, 1}};
    const Case of{.mode = "linear"};
    check_close(run_node({"Resize",
                          {{"mode", std::string("linear")}, {"keep_aspect_ratio_policy", policy}},
                          {in, std::nullopt, std::nullopt, Tensor::of_int64({2}, Shape{8, 10})},
                          {{DataType::float32, out}},
                          {3}})
                    .front(),
                resized(of, in, dims, out, 0));
  }
}

TEST_CASE("Resize refuses what it does not know") {
  const Tensor in = Tensor::zeros(DataType::float32, {2, 2});
  const Tensor scales = Tensor::of_float({2}, std::vector<float>{2, 2});
  const std::vector<std::pair<DataType, Shape>> out = {{DataType::float32, {4, 4}}};
  CHECK_THROWS_WITH(
      run_node({"Resize", {{"mode", std::string("area")}}, {in, std::nullopt, scales}, out, {2}}),
      Contains("the_node") && Contains("mode 'area'"));
  CHECK_THROWS_WITH(run_node({"Resize", {}, {in, std::nullopt, scales}, out}),
                    Contains("'scales' of Resize must be a constant"));
  CHECK_THROWS_WITH(
      run_node({"Resize",
                {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}},
                {in, std::nullopt, scales},
                out,
                {2}}),
      Contains("region of 4 numbers, not 0"));
}
