// Normalisations of images against loops in double.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Matchers::Contains;
using Random = std::mt19937;

namespace {

const std::vector<Shape> image_shapes = {
    {2, 4, 5}, {3, 4, 3, 5}, {1, 6, 2, 3, 2}, {2, 4, 1, 1}, {2, 12, 9, 17}};

struct Moments {
  double mean = 0;
  double variance = 0;
};

/// The moments of the elements for which `belongs(index)`.
template <typename Belongs>
Moments moments_of(const Tensor& in, Belongs belongs) {
  std::vector<double> values;
  for_each_index(in.shape(), [&](const Shape& index) {
    if (belongs(index)) values.push_back(at(in, index));
  });
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const double value : values) moments.mean += value / n;
  for (const double value : values)
    moments.variance += (value - moments.mean) * (value - moments.mean) / n;
  return moments;
}

/// [channels] numbers as they are in the tensor's type.
double of_channel(const Tensor& tensor, std::int64_t channel) {
  return number_at(tensor, static_cast<std::size_t>(channel));
}

}  // namespace

TEST_CASE("BatchNormalization scales each channel by numbers of any type") {
  Random random(1);
  for (const DataType type : float_types)
    for (const DataType other : float_types)
      for (const Shape& shape : image_shapes) {
        const Tensor in = random_in(type, shape, random, -3, 3);
        const Tensor scale = random_in(other, {shape[1]}, random, -2, 2);
        const Tensor bias = random_in(other, {shape[1]}, random, -2, 2);
        const Tensor mean = random_in(type, {shape[1]}, random, -2, 2);
        const Tensor variance = random_in(type, {shape[1]}, random, 0.1, 2);
        std::vector<double> expected;
        for_each_index(shape, [&](const Shape& index) {
          const std::int64_t c = index[1];
          expected.push_back((at(in, index) - of_channel(mean, c)) /
                                 std::sqrt(of_channel(variance, c) + 0.0078125) *
                                 of_channel(scale, c) +
                             of_channel(bias, c));
        });
        const Tensor out = run_node({"BatchNormalization",
                                     {{"epsilon", 0.0078125F}},
                                     {in, scale, bias, mean, variance},
                                     {{type, shape}}})
                               .front();
        check_close(out, expected, 10);
      }
}

TEST_CASE(
    "BatchNormalization in training takes the batch's statistics and moves the running ones") {
  Random random(2);
  for (const DataType type : float_types)
    for (const Shape& shape : image_shapes) {
      const Shape per_channel{shape[1]};
      const Tensor in = random_in(type, shape, random, -3, 3);
      const Tensor scale = random_in(type, per_channel, random, -2, 2);
      const Tensor bias = random_in(type, per_channel, random, -2, 2);
      const Tensor mean = random_in(DataType::float32, per_channel, random, -2, 2);
      const Tensor variance = random_in(DataType::float32, per_channel, random, 0.1, 2);
      std::vector<Moments> moments;
      std::vector<double> means;
      std::vector<double> variances;
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        moments.push_back(moments_of(in, [&](const Shape& index) { return index[1] == c; }));
        means.push_back(of_channel(mean, c) * 0.75 + moments.back().mean * 0.25);
        variances.push_back(of_channel(variance, c) * 0.75 + moments.back().variance * 0.25);
      }
      std::vector<double> expected;
      for_each_index(shape, [&](const Shape& index) {
        const Moments& of = moments[static_cast<std::size_t>(index[1])];
        expected.push_back((at(in, index) - of.mean) / std::sqrt(of.variance + 0.015625) *
                               of_channel(scale, index[1]) +
                           of_channel(bias, index[1]));
      });
      const auto outputs = run_node(
          {"BatchNormalization",
           {{"epsilon", 0.015625F}, {"momentum", 0.75F}, {"training_mode", std::int64_t{1}}},
           {in, scale, bias, mean, variance},
           {{type, shape}, {DataType::float32, per_channel}, {DataType::float32, per_channel}}});
      check_close(outputs[0], expected, 10);
      check_close(outputs[1], means, 10);
      check_close(outputs[2], variances, 10);
    }
}

TEST_CASE(
    "BatchNormalization in training moves the running statistics by those of no images, too") {
  const Shape none{0, 2, 3};
  const Tensor numbers = tensor_of(DataType::float32, {2}, {1, 2});
  const auto outputs =
      run_node({"BatchNormalization",
                {{"momentum", 0.75F}, {"training_mode", std::int64_t{1}}},
                {Tensor::zeros(DataType::float32, none), numbers, numbers, numbers, numbers},
                {{DataType::float32, none}, {DataType::float32, {2}}, {DataType::float32, {2}}}});
  CHECK(outputs[0].elements() == 0);
  for (std::int64_t channel = 0; channel < 2; ++channel) {
    CHECK(std::isnan(of_channel(outputs[1], channel)));
    CHECK(std::isnan(of_channel(outputs[2], channel)));
  }
}

TEST_CASE("GroupNormalization and InstanceNormalization equal loops") {
  Random random(3);
  for (const DataType type : float_types)
    for (const Shape& shape : image_shapes)
      for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{2}, shape[1]})
        for (const bool is_instance : {false, true}) {
          if (is_instance && groups != shape[1]) continue;
          const Tensor in = random_in(type, shape, random, -3, 5);
          const Tensor scale = random_in(type, {shape[1]}, random, -2, 2);
          const Tensor bias = random_in(type, {shape[1]}, random, -2, 2);
          const std::int64_t group_channels = shape[1] / groups;
          std::vector<double> expected;
          std::map<std::pair<std::int64_t, std::int64_t>, Moments> moments;
          for (std::int64_t n = 0; n < shape[0]; ++n)
            for (std::int64_t g = 0; g < groups; ++g)
              moments[{n, g}] = moments_of(in, [&](const Shape& index) {
                return index[0] == n && index[1] / group_channels == g;
              });
          for_each_index(shape, [&](const Shape& index) {
            const Moments& of = moments[{index[0], index[1] / group_channels}];
            expected.push_back((at(in, index) - of.mean) / std::sqrt(of.variance + 0.015625) *
                                   of_channel(scale, index[1]) +
                               of_channel(bias, index[1]));
          });
          NodeRun node{"GroupNormalization",
                       {{"epsilon", 0.015625F}, {"num_groups", groups}},
                       {in, scale, bias},
                       {{type, shape}}};
          if (is_instance) {
            node.op_type = "InstanceNormalization";
            node.attributes.erase("num_groups");
          }
          check_close(run_node(node).front(), expected, 10);
        }
}

TEST_CASE("LRN divides by the squares of neighbouring channels") {
  Random random(4);
  for (const DataType type : float_types)
    for (const Shape& shape : image_shapes)
      for (const std::int64_t size : {1, 2, 3, 4, 5, 30})
        for (const float beta : {0.75F, 0.5F}) {
          const Tensor in = random_in(type, shape, random, -3, 3);
          std::vector<double> expected;
          for_each_index(shape, [&](const Shape& index) {
            double sum = 0;
            for (std::int64_t c = index[1] - (size - 1) / 2; c <= index[1] + size / 2; ++c) {
              if (c < 0 || c >= shape[1]) continue;
              Shape other = index;
              other[1] = c;
              sum += at(in, other) * at(in, other);
            }
            const double base = 1.5 + 0.25 / static_cast<double>(size) * sum;
            expected.push_back(at(in, index) / std::pow(base, static_cast<double>(beta)));
          });
          check_close(run_node({"LRN",
                                {{"size", size}, {"alpha", 0.25F}, {"beta", beta}, {"bias", 1.5F}},
                                {in},
                                {{type, shape}}})
                          .front(),
                      expected, 3);
        }
}

TEST_CASE("LpNormalization divides by norms along any axis, and leaves zeros") {
  Random random(5);
  for (const DataType type : float_types)
    for (const Shape& shape : {Shape{7}, Shape{3, 4}, Shape{2, 5, 3}, Shape{2, 3, 40}})
      for (std::int64_t axis = -1; axis < static_cast<std::int64_t>(shape.size()); ++axis)
        for (const std::int64_t p : {1, 2}) {
          Tensor in = random_in(type, shape, random, -3, 3);
          if (axis == 0 && shape.size() == 3) in = Tensor::zeros(type, shape);
          const std::size_t along = axis < 0 ? shape.size() - 1 : static_cast<std::size_t>(axis);
          std::vector<double> expected;
          for_each_index(shape, [&](const Shape& index) {
            double sum = 0;
            for (std::int64_t i = 0; i < shape[along]; ++i) {
              Shape other = index;
              other[along] = i;
              sum += std::pow(std::abs(at(in, other)), p);
            }
            expected.push_back(sum == 0 ? 0 : at(in, index) / (p == 2 ? std::sqrt(sum) : sum));
          });
          check_close(
              run_node({"LpNormalization", {{"axis", axis}, {"p", p}}, {in}, {{type, shape}}})
                  .front(),
              expected);
        }
}

TEST_CASE("normalisations refuse what does not fit") {
  const Tensor in = Tensor::zeros(DataType::float32, {1, 4, 2, 2});
  const Tensor two = Tensor::zeros(DataType::float32, {2});
  const Tensor four = Tensor::zeros(DataType::float32, {4});
  const std::vector<std::pair<DataType, Shape>> out = {{DataType::float32, in.shape()}};
  CHECK_THROWS_WITH(run_node({"InstanceNormalization", {}, {in, two, four}, out}),
                    Contains("the_node") && Contains("2 numbers for 4 channels"));
  CHECK_THROWS_WITH(
      run_node({"GroupNormalization", {{"num_groups", std::int64_t{3}}}, {in, four, four}, out}),
      Contains("4 channels do not make 3 groups"));
  CHECK_THROWS_WITH(run_node({"LpNormalization", {{"p", std::int64_t{3}}}, {in}, out}),
                    Contains("a p of 1 or 2"));
}
