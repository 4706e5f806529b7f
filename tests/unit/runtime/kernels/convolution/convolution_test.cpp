// Convolutions through random windows, their transposes and their like against loops in double.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Matchers::Contains;
using Random = std::mt19937;

namespace {

constexpr std::int64_t images = 2;

std::int64_t pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// A linear interpolation of an image's channel at a point, with zeros outside of it.
double interpolated(const Tensor& in, std::int64_t image, std::int64_t channel,
                    const std::vector<double>& point) {
  double sum = 0;
  for_each_index(Shape(point.size(), 2), [&](const Shape& corner) {
    double weight = 1;
    Shape place;
    for (std::size_t d = 0; d < point.size(); ++d) {
      const double low = std::floor(point[d]);
      weight *= corner[d] == 0 ? 1 - (point[d] - low) : point[d] - low;
      place.push_back(static_cast<std::int64_t>(low) + corner[d]);
      if (place[d] < 0 || place[d] >= in.shape()[d + 2]) return;
    }
    sum += weight * pixel(in, image, channel, place);
  });
  return sum;
}

}  // namespace

TEST_CASE(
    "Conv equals loops for every padding, stride, dilation and group, weights constant or not") {
  Random random(1);
  for (const DataType type : float_types)
    for (int round = 0; round < 6; ++round)
      for (const std::size_t spatial : {1, 2, 3})
        for (const std::string& auto_pad : auto_pads) {
          RandomWindows windows = random_windows(random, spatial, auto_pad, Rounding::down);
          const std::int64_t groups = pick(random, 1, 3);
          const std::int64_t in_group = pick(random, 1, 9);
          const std::int64_t out_group = pick(random, 1, 17);
          windows.attributes["group"] = groups;
          const Tensor in =
              random_in(type, joined({images, groups * in_group}, windows.in), random, -1, 1);
          const Tensor weights =
              random_in(type, joined({groups * out_group, in_group}, windows.taps), random, -1, 1);
          const Tensor bias = random_in(type, {groups * out_group}, random, -1, 1);
          const bool has_bias = round % 2 == 0;
          const Shape out = joined({images, groups * out_group}, windows.out);
          std::vector<double> expected;
          for_each_index(out, [&](const Shape& index) {
            const Shape place(index.begin() + 2, index.end());
            double sum = has_bias ? number_at(bias, static_cast<std::size_t>(index[1])) : 0;
            for_each_index(windows.taps, [&](const Shape& tap) {
              const auto seen = windows.seen(place, tap);
              if (!seen) return;
              for (std::int64_t c = 0; c < in_group; ++c)
                sum += pixel(in, index[0], index[1] / out_group * in_group + c, *seen) *
                       pixel(weights, index[1], c, tap);
            });
            expected.push_back(sum);
          });
          NodeRun node{"Conv", windows.attributes, {in, weights}, {{type, out}}};
          if (has_bias) node.inputs.emplace_back(bias);
          CAPTURE(spatial, auto_pad, windows.in, windows.out, windows.taps, groups);
          for (const bool is_constant : {false, true}) {
            if (is_constant) node.constants = {1};
            check_close(run_node(node).front(), expected, 30);
          }
        }
}

TEST_CASE("ConvTranspose puts each window's share back, in every form of its output's size") {
  Random random(2);
  for (const DataType type : float_types)
    for (int round = 0; round < 8; ++round)
      for (const std::size_t spatial : {1, 2, 3})
        for (const std::string form :
             {"pads", "output_padding", "output_shape", "SAME_UPPER", "SAME_LOWER", "upper_shape",
              "output_padding and output_shape", "output_padding and SAME_UPPER"}) {
          const bool has_extra = form.starts_with("output_padding");
          const bool is_shape = form.ends_with("_shape");
          const bool is_upper = form.ends_with("SAME_UPPER") || form == "upper_shape";
          const std::int64_t groups = pick(random, 1, 3);
          const std::int64_t in_group = pick(random, 1, 5);
          const std::int64_t out_group = pick(random, 1, 5);
          Shape in_places;
          Shape out_places;
          Integers taps;
          Integers strides;
          Integers dilations;
          Integers begins;
          Integers pads(2 * spatial, 0);
          Integers extra(spatial, 0);
          for (std::size_t d = 0; d < spatial; ++d) {
            taps.push_back(pick(random, 1, 3));
            strides.push_back(pick(random, 1, 3));
            dilations.push_back(pick(random, 1, 2));
            in_places.push_back(pick(random, 1, 4));
            const std::int64_t reach = (taps[d] - 1) * dilations[d] + 1;
            if (has_extra)
              extra[d] = pick(random, 0, static_cast<int>(std::max(strides[d], dilations[d])) - 1);
            const std::int64_t all = (in_places[d] - 1) * strides[d] + reach + extra[d];
            if (form == "pads" || form == "output_padding") {
              pads[d] = pick(random, 0, static_cast<int>(reach - 1) / 2);
              pads[spatial + d] = pick(random, 0, static_cast<int>(reach - 1) / 2);
              begins.push_back(pads[d]);
              out_places.push_back(all - pads[d] - pads[spatial + d]);
              continue;
            }
            out_places.push_back(is_shape ? all + pick(random, -static_cast<int>(reach) + 1, 2)
                                          : in_places[d] * strides[d]);
            if (out_places.back() < 1) out_places.back() = 1;
            const std::int64_t total = std::max<std::int64_t>(0, all - out_places.back());
            begins.push_back(is_upper ? total / 2 : total - total / 2);
          }
          std::map<std::string, Attribute> attributes = {
              {"strides", strides}, {"dilations", dilations}, {"group", groups}};
          if (form == "pads" || form == "output_padding") attributes["pads"] = pads;
          if (has_extra) attributes["output_padding"] = extra;
          if (is_shape) attributes["output_shape"] = out_places;
          if (is_upper) attributes["auto_pad"] = std::string("SAME_UPPER");
          if (form == "SAME_LOWER") attributes["auto_pad"] = form;

          const Tensor in =
              random_in(type, joined({images, groups * in_group}, in_places), random, -1, 1);
          const Tensor weights =
              random_in(type, joined({groups * in_group, out_group}, taps), random, -1, 1);
          const Tensor bias = random_in(type, {groups * out_group}, random, -1, 1);
          const bool has_bias = round % 2 == 0;
          const Shape out = joined({images, groups * out_group}, out_places);
          std::map<Shape, double> sums;
          for_each_index(in.shape(), [&](const Shape& from) {
            for_each_index(joined({out_group}, taps), [&](const Shape& tap) {
              const std::int64_t group = from[1] / in_group;
              Shape to{from[0], group * out_group + tap[0]};
              for (std::size_t d = 0; d < spatial; ++d) {
                to.push_back(from[d + 2] * strides[d] + tap[d + 1] * dilations[d] - begins[d]);
                if (to.back() < 0 || to.back() >= out_places[d]) return;
              }
              sums[to] += at(in, from) * at(weights, joined({from[1]}, tap));
            });
          });
          std::vector<double> expected;
          for_each_index(out, [&](const Shape& index) {
            const double start = has_bias ? number_at(bias, static_cast<std::size_t>(index[1])) : 0;
            expected.push_back(start + sums[index]);
          });
          NodeRun node{"ConvTranspose", attributes, {in, weights}, {{type, out}}};
          if (has_bias) node.inputs.emplace_back(bias);
          CAPTURE(form, in_places, out_places, taps, strides, dilations, groups);
          for (const bool is_constant : {false, true}) {
            if (is_constant) node.constants = {1};
            check_close(run_node(node).front(), expected, 10);
          }
        }
}

TEST_CASE("Col2Im adds up the columns that windows were laid out as, integers exactly") {
  Random random(3);
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  for (const DataType type : types)
    for (int round = 0; round < 10; ++round)
      for (const std::size_t spatial : {1, 2, 3}) {
        RandomWindows windows = random_windows(random, spatial, "NOTSET", Rounding::down);
        const std::int64_t channels = 2;
        const std::int64_t each = graph::num_elements(windows.out);
        const std::int64_t taps = graph::num_elements(windows.taps);
        const Tensor in = random_in(type, {images, channels * taps, each}, random, 0, 4);
        const Shape out = joined({images, channels}, windows.in);
        std::map<Shape, double> sums;
        for (std::int64_t n = 0; n < images; ++n)
          for (std::int64_t c = 0; c < channels; ++c) {
            std::int64_t column = 0;
            for_each_index(windows.taps, [&](const Shape& tap) {
              std::int64_t window = 0;
              for_each_index(windows.out, [&](const Shape& place) {
                if (const auto seen = windows.seen(place, tap))
                  sums[joined({n, c}, *seen)] += at(in, {n, c * taps + column, window});
                ++window;
              });
              ++column;
            });
          }
        std::vector<double> expected;
        for_each_index(out, [&](const Shape& index) { expected.push_back(sums[index]); });
        const Tensor image = Tensor::of_int64({static_cast<std::int64_t>(spatial)}, windows.in);
        const Tensor block = Tensor::of_int64({static_cast<std::int64_t>(spatial)}, windows.taps);
        NodeRun node{"Col2Im", windows.attributes, {in, image, block}, {{type, out}}};
        node.constants = {1, 2};
        check_close(run_node(node).front(), expected, 30);
      }
}

TEST_CASE("MaxUnpool puts back what MaxPool took, and names an index that is out of range") {
  Random random(4);
  for (const DataType type : float_types)
    for (const std::int64_t more : {0, 1}) {
      const Tensor in = random_in(type, {2, 3, 4, 6}, random, -9, 9);
      const Shape pooled{2, 3, 2, 3};
      const std::map<std::string, Attribute> attributes = {{"kernel_shape", Integers{2, 2}},
                                                           {"strides", Integers{2, 2}}};
      const auto taken =
          run_node({"MaxPool", attributes, {in}, {{type, pooled}, {DataType::int64, pooled}}});
      const Shape out{2, 3, 4 + more, 6 + more};
      std::vector<double> expected;
      for_each_index(out, [&](const Shape& index) {
        if (index[2] >= 4 || index[3] >= 6) return expected.push_back(0);
        const std::int64_t flat = ((index[0] * 3 + index[1]) * 4 + index[2]) * 6 + index[3];
        double value = 0;
        for (std::size_t i = 0; i < 36; ++i)
          if (taken[1].values<std::int64_t>()[i] == flat) value = number_at(taken[0], i);
        expected.push_back(value);
      });
      NodeRun node{"MaxUnpool", attributes, {taken[0], taken[1]}, {{type, out}}};
      if (more > 0) {
        node.inputs.emplace_back(Tensor::of_int64({4}, out));
        node.constants = {2};
      }
      CHECK(doubles(run_node(node).front()) == expected);
      std::vector<std::int64_t> wrong(36, 0);
      wrong[7] = 144;
      node.inputs[1] = Tensor::of_int64(pooled, wrong);
      CHECK_THROWS_WITH(run_node(node), Contains("the_node") && Contains("144"));
    }
}

TEST_CASE("a Conv of series whose groups are a channel each equals loops") {
  Random random(7);
  for (const std::int64_t extent : {1, 7, 40, 101})
    for (const std::int64_t taps : {1, 3, 4, 31})
      for (const std::int64_t dilation : {1, 3})
        for (const std::int64_t padding : {0, 2, 45}) {
          const std::int64_t channels = 3;
          const std::int64_t windows = extent + 2 * padding - (taps - 1) * dilation;
          if (windows < 1) continue;
          const Tensor in = random_floats(random, {images, channels, extent});
          const Tensor weights = random_floats(random, {channels, 1, taps});
          const Tensor bias = random_floats(random, {channels});
          const bool has_bias = dilation == 1;
          std::vector<double> expected;
          for_each_index({images, channels, windows}, [&](const Shape& index) {
            double sum = has_bias ? at(bias, {index[1]}) : 0;
            for (std::int64_t tap = 0; tap < taps; ++tap) {
              const std::int64_t place = index[2] - padding + tap * dilation;
              if (place >= 0 && place < extent)
                sum += at(in, {index[0], index[1], place}) * at(weights, {index[1], 0, tap});
            }
            expected.push_back(sum);
          });
          NodeRun node{"Conv",
                       {{"group", channels},
                        {"pads", std::vector<std::int64_t>{padding, padding}},
                        {"dilations", std::vector<std::int64_t>{dilation}}},
                       {in, weights},
                       {{DataType::float32, {images, channels, windows}}}};
          if (has_bias) node.inputs.push_back(bias);
          CAPTURE(extent, taps, dilation, padding);
          check_close(run_floats(node), expected);
        }
}

TEST_CASE("DeformConv sees each tap where its offset says") {
  Random random(5);
  for (const DataType type : float_types)
    for (int round = 0; round < 6; ++round)
      for (const std::size_t spatial : {1, 2, 3}) {
        RandomWindows windows = random_windows(random, spatial, "NOTSET", Rounding::down);
        const auto dims = static_cast<std::int64_t>(spatial);
        const std::int64_t groups = pick(random, 1, 2);
        const std::int64_t offset_groups = pick(random, 1, 2);
        const std::int64_t channels = 4;
        const std::int64_t in_group = channels / groups;
        const std::int64_t out_group = pick(random, 1, 6);
        const std::int64_t taps = graph::num_elements(windows.taps);
        windows.attributes["group"] = groups;
        windows.attributes["offset_group"] = offset_groups;
        const Tensor in = random_in(type, joined({images, channels}, windows.in), random, -1, 1);
        const Tensor weights =
            random_in(type, joined({groups * out_group, in_group}, windows.taps), random, -1, 1);
        const Tensor offset = random_in(
            type, joined({images, offset_groups * taps * dims}, windows.out), random, -2, 2);
        const Tensor bias = random_in(type, {groups * out_group}, random, -1, 1);
        const Tensor mask =
            random_in(type, joined({images, offset_groups * taps}, windows.out), random, 0, 1);
        const bool has_more = round % 2 == 0;
        const Shape out = joined({images, groups * out_group}, windows.out);
        std::vector<double> expected;
        for_each_index(out, [&](const Shape& index) {
          const Shape place(index.begin() + 2, index.end());
          double sum = has_more ? number_at(bias, static_cast<std::size_t>(index[1])) : 0;
          for (std::int64_t c = 0; c < in_group; ++c) {
            std::int64_t t = 0;
            for_each_index(windows.taps, [&](const Shape& tap) {
              const std::int64_t channel = index[1] / out_group * in_group + c;
              const std::int64_t first = channel / (channels / offset_groups) * taps + t;
              std::vector<double> point;
              for (std::size_t d = 0; d < spatial; ++d)
                point.push_back(
                    static_cast<double>(place[d] * windows.strides[d] +
                                        tap[d] * windows.dilations[d] - windows.begin_pads[d]) +
                    pixel(offset, index[0], first * dims + static_cast<std::int64_t>(d), place));
              double value = interpolated(in, index[0], channel, point);
              if (has_more) value *= pixel(mask, index[0], first, place);
              sum += value * pixel(weights, index[1], c, tap);
              ++t;
            });
          }
          expected.push_back(sum);
        });
        NodeRun node{"DeformConv", windows.attributes, {in, weights, offset}, {{type, out}}};
        if (has_more) node.inputs.insert(node.inputs.end(), {bias, mask});
        check_close(run_node(node).front(), expected, type == DataType::float32 ? 40 : 20);
      }
}

TEST_CASE("convolutions refuse weights that do not fit") {
  const Tensor in = Tensor::zeros(DataType::float32, {1, 4, 5, 5});
  const Tensor weights = Tensor::zeros(DataType::float32, {6, 2, 3, 3});
  CHECK_THROWS_WITH(run_node({"Conv", {}, {in, weights}, {{DataType::float32, {1, 6, 3, 3}}}}),
                    Contains("the_node") && Contains("do not fit its channels in 1 groups"));
  CHECK_THROWS_WITH(run_node({"ConvTranspose",
                              {{"group", std::int64_t{2}}},
                              {in, weights},
                              {{DataType::float32, {1, 6, 7, 7}}}}),
                    Contains("the_node") && Contains("do not fit its channels in 2 groups"));
}
