// Images read between their places, and regions of them, against plain loops.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Matchers::Contains;
using Random = std::mt19937;

namespace {

/// Multiples of 1/64, so that no type rounds them.
Tensor random_grid(DataType type, const Shape& shape, Random& random) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  for (double& value : values)
    value = static_cast<double>(std::uniform_int_distribution<int>(-124, 124)(random)) / 64;
  return tensor_of(type, shape, values);
}

/// Walks from mirror to mirror until the coordinate lies between them.
double mirrored(double x, double low, double high) {
  if (high <= low) return low;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return x;
}

struct Sampler {
  std::string mode;
  std::string padding;
  bool aligns = false;

  double bring_in(double x, double extent) const {
    const double low = aligns ? 0 : -0.5;
    const double high = aligns ? extent - 1 : extent - 0.5;
    if (padding == "border") return std::clamp(x, 0.0, extent - 1);
    if (padding == "reflection") return mirrored(x, low, high);
    return x;
  }

  /// Weights of places along one dimension, those outside left out where they count as 0.
  std::map<std::int64_t, double> along(double coordinate, std::int64_t extent) const {
    const auto n = static_cast<double>(extent);
    double x = aligns ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
    if (mode == "nearest") x = std::nearbyint(x);
    // A border begins where mirrors would stand.
    const bool is_near = x >= (aligns ? 0 : -0.5) && x <= (aligns ? n - 1 : n - 0.5);
    if (!is_near) x = bring_in(x, n);
    const double base = std::floor(x);
    const double t = x - base;
    std::map<double, double> taps;
    if (mode == "nearest") taps[x] = 1;
    if (mode == "linear") taps = {{base, 1 - t}, {base + 1, t}};
    if (mode == "cubic")
      for (int k = -1; k <= 2; ++k) {
        const double d = std::abs(t - k);
        const double a = -0.75;
        taps[base + k] = d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                                : a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
      }
    std::map<std::int64_t, double> weights;
    for (const auto& [place, weight] : taps) {
      const auto at = static_cast<std::int64_t>(bring_in(place, n));
      if (at >= 0 && at < extent) weights[at] += weight;
    }
    return weights;
  }

  double at(const Tensor& in, std::int64_t image, std::int64_t channel,
            const std::vector<double>& point) const {
    std::vector<std::pair<Shape, double>> parts = {{{}, 1.0}};
    for (std::size_t d = 0; d < point.size(); ++d) {
      std::vector<std::pair<Shape, double>> next;
      for (const auto& [head, weight] : parts)
        for (const auto& [place, factor] : along(point[d], in.shape()[d + 2]))
          next.emplace_back(joined(head, {place}), weight * factor);
      parts = std::move(next);
    }
    double sum = 0;
    for (const auto& [place, weight] : parts) sum += weight * pixel(in, image, channel, place);
    return sum;
  }
};

}  // namespace

TEST_CASE("GridSample reads images where the grid says, in every mode and beyond their ends") {
  Random random(1);
  const std::vector<std::pair<Shape, Shape>> sizes = {
      {{8}, {5}}, {{4, 8}, {5, 7}}, {{2, 4, 8}, {2, 3, 4}}, {{1, 4}, {3, 3}}};
  for (const DataType type : float_types)
    for (const auto& [in_places, out_places] : sizes)
      for (const std::string mode : {"nearest", "linear", "cubic"})
        for (const std::string padding : {"zeros", "border", "reflection"})
          for (const bool aligns : {false, true}) {
            const Sampler sampler{mode, padding, aligns};
            const auto dims = static_cast<std::int64_t>(in_places.size());
            const Tensor in = random_in(type, joined({2, 3}, in_places), random, -3, 3);
            const Tensor grid = random_grid(type, joined(joined({2}, out_places), {dims}), random);
            const Shape out = joined({2, 3}, out_places);
            std::vector<double> expected;
            for_each_index(out, [&](const Shape& index) {
              std::vector<double> point;
              for (std::int64_t d = dims; d-- > 0;) {
                Shape in_grid{index[0]};
                in_grid.insert(in_grid.end(), index.begin() + 2, index.end());
                in_grid.push_back(d);
                point.push_back(at(grid, in_grid));
              }
              expected.push_back(sampler.at(in, index[0], index[1], point));
            });
            CAPTURE(mode, padding, aligns, in_places);
            check_close(run_node({"GridSample",
                                  {{"mode", mode},
                                   {"padding_mode", padding},
                                   {"align_corners", std::int64_t{aligns}}},
                                  {in, grid},
                                  {{type, out}}})
                            .front(),
                        expected, 10);
          }
}

TEST_CASE("AffineGrid moves the points of a regular grid") {
  Random random(2);
  for (const DataType type : float_types)
    for (const Shape& places : {Shape{3, 4}, Shape{1, 5}, Shape{2, 3, 4}})
      for (const bool aligns : {false, true}) {
        const auto dims = static_cast<std::int64_t>(places.size());
        const Tensor theta = random_in(type, {2, dims, dims + 1}, random, -1, 1);
        const Shape out = joined(joined({2}, places), {dims});
        std::vector<double> expected;
        for_each_index(out, [&](const Shape& index) {
          double sum = at(theta, {index[0], index.back(), dims});
          for (std::int64_t d = 0; d < dims; ++d) {
            const auto along = static_cast<std::size_t>(dims - 1 - d);
            const auto n = static_cast<double>(places[along]);
            const auto i = static_cast<double>(index[along + 1]);
            const double open = -1 + (2 * i + 1) / n;
            const double closed = n == 1 ? 0 : -1 + 2 * i / (n - 1);
            sum += at(theta, {index[0], index.back(), d}) * (aligns ? closed : open);
          }
          expected.push_back(sum);
        });
        const Tensor size = Tensor::of_int64({dims + 2}, joined({2, 3}, places));
        check_close(run_node({"AffineGrid",
                              {{"align_corners", std::int64_t{aligns}}},
                              {theta, size},
                              {{type, out}},
                              {1}})
                        .front(),
                    expected, 3);
      }
}

TEST_CASE("RoiAlign takes the mean or the largest share of samples of a region") {
  Random random(3);
  for (const DataType type : float_types)
    for (const std::string mode : {"avg", "max"})
      for (const bool half_pixel : {false, true})
        for (const std::int64_t ratio : {0, 1, 3}) {
          const std::int64_t channels = type == DataType::float32 ? 19 : 2;
          const Tensor in = random_in(type, {3, channels, 7, 9}, random, -2, 5);
          // Multiples of 1/2 within and around the image, some of them upside down.
          std::vector<double> corners;
          for (int i = 0; i < 20; ++i)
            corners.push_back(
                static_cast<double>(std::uniform_int_distribution<int>(-4, 40)(random)) / 2);
          const Tensor rois = tensor_of(type, {5, 4}, corners);
          const std::vector<std::int64_t> batch = {0, 2, 1, 2, 0};
          const Shape out{5, channels, 2, 4};
          const double scale = 0.5;
          std::vector<double> expected;
          for_each_index(out, [&](const Shape& index) {
            const auto r = static_cast<std::size_t>(index[0]) * 4;
            const double shift = half_pixel ? 0.5 : 0;
            const double left = corners[r] * scale - shift;
            const double top = corners[r + 1] * scale - shift;
            double width = corners[r + 2] * scale - shift - left;
            double height = corners[r + 3] * scale - shift - top;
            if (!half_pixel) {
              width = std::max(width, 1.0);
              height = std::max(height, 1.0);
            }
            const auto samples = [&](double bin) {
              return ratio > 0 ? static_cast<int>(ratio)
                               : std::max(0, static_cast<int>(std::ceil(bin)));
            };
            const int rows = samples(height / 2);
            const int columns = samples(width / 4);
            double sum = 0;
            std::optional<double> most;
            for (int i = 0; i < rows; ++i)
              for (int j = 0; j < columns; ++j) {
                double y = top + (static_cast<double>(index[2]) + (i + 0.5) / rows) * height / 2;
                double x = left + (static_cast<double>(index[3]) + (j + 0.5) / columns) * width / 4;
                std::vector<double> shares(4, 0.0);
                if (y >= -1 && y <= 7 && x >= -1 && x <= 9) {
                  y = std::clamp(y, 0.0, 6.0);
                  x = std::clamp(x, 0.0, 8.0);
                  const double fy = y - std::floor(y);
                  const double fx = x - std::floor(x);
                  for (int k = 0; k < 4; ++k) {
                    const auto at_y = static_cast<std::int64_t>(std::floor(y)) + k / 2;
                    const auto at_x = static_cast<std::int64_t>(std::floor(x)) + k % 2;
                    const double weight = (k / 2 == 1 ? fy : 1 - fy) * (k % 2 == 1 ? fx : 1 - fx);
                    if (at_y < 7 && at_x < 9)
                      shares[static_cast<std::size_t>(k)] =
                          weight * pixel(in, batch[r / 4], index[1], {at_y, at_x});
                  }
                }
                for (const double share : shares) {
                  sum += share;
                  most = std::max(most.value_or(share), share);
                }
              }
            expected.push_back(mode == "avg" ? sum / std::max(1, rows * columns)
                                             : most.value_or(0));
          });
          NodeRun node{"RoiAlign",
                       {{"mode", mode},
                        {"sampling_ratio", ratio},
                        {"spatial_scale", 0.5F},
                        {"output_height", std::int64_t{2}},
                        {"output_width", std::int64_t{4}},
                        {"coordinate_transformation_mode",
                         std::string(half_pixel ? "half_pixel" : "output_half_pixel")}},
                       {in, rois, Tensor::of_int64({5}, batch)},
                       {{type, out}}};
          CAPTURE(mode, half_pixel, ratio);
          check_close(run_node(node).front(), expected, 10);
          node.inputs[2] = Tensor::of_int64({5}, std::vector<std::int64_t>{0, 1, 2, 3, 0});
          CHECK_THROWS_WITH(run_node(node), Contains("the_node") && Contains("index 3"));
        }
}

TEST_CASE("MaxRoiPool takes the largest of each bin of a region") {
  Random random(4);
  for (const DataType type : float_types)
    for (int round = 0; round < 10; ++round) {
      const Tensor in = random_in(type, {2, 3, 8, 10}, random, -5, -1);
      std::vector<double> numbers;
      for (int i = 0; i < 6; ++i) {
        numbers.push_back(static_cast<double>(random() % 2));
        for (int k = 0; k < 4; ++k)
          numbers.push_back(
              static_cast<double>(std::uniform_int_distribution<int>(-2, 24)(random)));
      }
      const Tensor rois = tensor_of(type, {6, 5}, numbers);
      const Shape out{6, 3, 2, 4};
      std::vector<double> expected;
      for_each_index(out, [&](const Shape& index) {
        const auto r = static_cast<std::size_t>(index[0]) * 5;
        const auto bin = [&](double first, double last, std::int64_t i, int bins, int extent) {
          first = std::round(first * 0.5);
          last = std::round(last * 0.5);
          const double step = std::max(last - first + 1, 1.0) / bins;
          const double from = std::floor(static_cast<double>(i) * step) + first;
          const double to = std::ceil(static_cast<double>(i + 1) * step) + first;
          return std::pair{static_cast<std::int64_t>(std::clamp<double>(from, 0, extent)),
                           static_cast<std::int64_t>(std::clamp<double>(to, 0, extent))};
        };
        const auto rows = bin(numbers[r + 2], numbers[r + 4], index[2], 2, 8);
        const auto columns = bin(numbers[r + 1], numbers[r + 3], index[3], 4, 10);
        std::optional<double> most;
        for (std::int64_t y = rows.first; y < rows.second; ++y)
          for (std::int64_t x = columns.first; x < columns.second; ++x) {
            const double value = pixel(in, static_cast<std::int64_t>(numbers[r]), index[1], {y, x});
            most = std::max(most.value_or(value), value);
          }
        expected.push_back(most.value_or(0));
      });
      NodeRun node{"MaxRoiPool",
                   {{"pooled_shape", Integers{2, 4}}, {"spatial_scale", 0.5F}},
                   {in, rois},
                   {{type, out}}};
      CHECK(doubles(run_node(node).front()) == expected);
      numbers[5] = 2;
      node.inputs[1] = tensor_of(type, {6, 5}, numbers);
      CHECK_THROWS_WITH(run_node(node), Contains("the_node") && Contains("index 2"));
    }
}

TEST_CASE("GridSample refuses modes and grids that it does not know") {
  const Tensor in = Tensor::zeros(DataType::float32, {1, 1, 2, 2});
  const Tensor grid = Tensor::zeros(DataType::float32, {1, 2, 2, 2});
  const std::vector<std::pair<DataType, Shape>> out = {{DataType::float32, {1, 1, 2, 2}}};
  CHECK_THROWS_WITH(run_node({"GridSample", {{"mode", std::string("area")}}, {in, grid}, out}),
                    Contains("the_node") && Contains("mode 'area'"));
  const Tensor points = Tensor::zeros(DataType::float32, {1, 2, 2, 3});
  CHECK_THROWS_WITH(run_node({"GridSample", {}, {in, points}, out}), Contains("with a grid"));
}
