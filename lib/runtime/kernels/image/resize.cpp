#include "runtime/kernels/image/resize.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

/// The numbers of a constant input of floats; empty where it is left out.
std::vector<double> constant_floats(const KernelRequest& request, std::size_t input,
                                    const char* name) {
  if (!is_given(request.inputs, input)) return {};
  const TensorView& view = request.inputs[input];
  if (view.elements() == 0) return {};
  require_type(request, view.type, AllFloats{});
  if (!request.is_constant(input))
    fail("node '{}': input '{}' of Resize must be a constant", request.node.name, name);
  std::vector<double> values;
  for (std::int64_t i = 0; i < view.elements(); ++i) values.push_back(AnyFloats(view).at(i));
  return values;
}

/// How a dimension is resized, in places.
struct AxisScale {
  double in;
  double out;
  double scale;
  double begin;  ///< of the region that is cropped, as a share of the dimension
  double end;
  double resized = scale * in;
};

/// The coordinate in the input of place x of the result.
using Original = double (*)(const AxisScale& of, double x);

constexpr const char* crop_and_resize = "tf_crop_and_resize";

Original original_of(const KernelRequest& request) {
  return named_attribute<Original>(
      request, "coordinate_transformation_mode", "half_pixel",
      {{"half_pixel", [](const AxisScale& of, double x) { return (x + 0.5) / of.scale - 0.5; }},
       {"half_pixel_symmetric",
        [](const AxisScale& of, double x) {
          return of.in / 2 * (1 - of.out / of.resized) + (x + 0.5) / of.scale - 0.5;
        }},
       {"pytorch_half_pixel",
        [](const AxisScale& of, double x) {
          return of.resized == 1 ? 0 : (x + 0.5) / of.scale - 0.5;
        }},
       {"align_corners",
        [](const AxisScale& of, double x) {
          return of.resized == 1 ? 0 : x * (of.in - 1) / (of.resized - 1);
        }},
       {"asymmetric", [](const AxisScale& of, double x) { return x / of.scale; }},
       {crop_and_resize, [](const AxisScale& of, double x) {
          if (of.resized == 1) return (of.begin + of.end) * (of.in - 1) / 2;
          return of.begin * (of.in - 1) + x * (of.end - of.begin) * (of.in - 1) / (of.resized - 1);
        }}});
}

/// The whole number that stands for x in mode "nearest".
using Rounding = double (*)(double x);

Rounding rounding_of(const KernelRequest& request) {
  return named_attribute<Rounding>(
      request, "nearest_mode", "round_prefer_floor",
      {{"round_prefer_floor", [](double x) { return std::ceil(x - 0.5); }},
       {"round_prefer_ceil", [](double x) { return std::floor(x + 0.5); }},
       {"floor", [](double x) { return std::floor(x); }},
       {"ceil", [](double x) { return std::ceil(x); }}});
}

/// Keys' kernel.
double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Makes the table of one dimension after the other.
class TableMaker {
 public:
  explicit TableMaker(const KernelRequest& request)
      : mode_(named_attribute<ResizeMode>(request, "mode", "nearest",
                                          {{"nearest", ResizeMode::nearest},
                                           {"linear", ResizeMode::linear},
                                           {"cubic", ResizeMode::cubic}})),
        original_(original_of(request)),
        crops_(request.node.string_attribute("coordinate_transformation_mode", "half_pixel") ==
               crop_and_resize),
        nearest_to_(rounding_of(request)),
        is_antialiased_(request.node.int_attribute("antialias", 0) != 0),
        excludes_outside_(request.node.int_attribute("exclude_outside", 0) != 0),
        cubic_a_(static_cast<double>(request.node.float_attribute("cubic_coeff_a", -0.75F))) {
    if (is_antialiased_ && mode_ == ResizeMode::nearest)
      fail("node '{}': Resize has no antialias of mode 'nearest'", request.node.name);
  }

  ResizeMode mode() const { return mode_; }
  bool crops() const { return crops_; }

  /// `begin` and `end` are the region that is cropped, as shares of the dimension.
  AxisTable make(std::size_t axis, std::int64_t in, std::int64_t out, double scale, double begin,
                 double end) const {
    AxisTable table{axis, in, out, 1, {}, {}};
    if (mode_ == ResizeMode::linear) table.taps = 2;
    if (mode_ == ResizeMode::cubic) table.taps = 4;
    const double shrinking = std::min(scale, 1.0);
    // The kernel reaches so many places before the first one of its own.
    std::int64_t first = mode_ == ResizeMode::cubic ? -1 : 0;
    if (is_antialiased_) {
      const double reach = mode_ == ResizeMode::cubic ? 2 : 1;
      constexpr double farthest = 1 << 24;
      if (reach / shrinking > farthest) fail("a scale of Resize is {}: too small", scale);
      first = static_cast<std::int64_t>(std::floor(-reach / shrinking)) + 1;
      table.taps = 2 - 2 * first;
    }
    const AxisScale of{static_cast<double>(in), static_cast<double>(out), scale, begin, end};
    for (std::int64_t i = 0; i < out; ++i) {
      const double x = original_(of, static_cast<double>(i));
      if (crops_ && (x < 0 || x > static_cast<double>(in - 1))) {
        table.places.insert(table.places.end(), static_cast<std::size_t>(table.taps), -1);
        table.weights.insert(table.weights.end(), static_cast<std::size_t>(table.taps), 0.0);
        continue;
      }
      if (mode_ == ResizeMode::nearest) {
        table.places.push_back(inside(nearest_to_(x), in));
        table.weights.push_back(1);
      } else {
        append(table, x, first, is_antialiased_ ? shrinking : 1.0);
      }
    }
    return table;
  }

 private:
  static std::int32_t inside(double place, std::int64_t in) {
    if (std::isnan(place)) return 0;
    return static_cast<std::int32_t>(std::clamp(place, 0.0, static_cast<double>(in - 1)));
  }

  void append(AxisTable& table, double x, std::int64_t first, double shrinking) const {
    const double base = std::floor(x);
    std::vector<double> weights;
    std::vector<double> places;
    for (std::int64_t k = first; k < first + table.taps; ++k) {
      const double distance = (static_cast<double>(k) - (x - base)) * shrinking;
      weights.push_back(mode_ == ResizeMode::cubic ? cubic_weight(distance, cubic_a_)
                                                   : std::max(0.0, 1 - std::abs(distance)));
      places.push_back(base + static_cast<double>(k));
    }
    if (is_antialiased_) normalize(weights);
    if (excludes_outside_) {
      for (std::size_t k = 0; k < weights.size(); ++k)
        if (places[k] < 0 || places[k] >= static_cast<double>(table.in)) weights[k] = 0;
      normalize(weights);
    }
    for (std::size_t k = 0; k < weights.size(); ++k) {
      table.places.push_back(inside(places[k], table.in));
      table.weights.push_back(weights[k]);
    }
  }

  static void normalize(std::vector<double>& weights) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    if (sum == 0) return;
    for (double& weight : weights) weight /= sum;
  }

  ResizeMode mode_;
  Original original_;
  bool crops_;
  Rounding nearest_to_;
  bool is_antialiased_;
  bool excludes_outside_;
  double cubic_a_;
};

/// For each axis that the node names, its scale.
std::vector<double> scales_of(const KernelRequest& request, const std::vector<std::size_t>& axes) {
  const Shape& in = request.inputs[0].shape;
  const Shape& out = request.outputs[0].shape;
  std::vector<double> scales = constant_floats(request, 2, "scales");
  if (!scales.empty()) {
    if (scales.size() != axes.size())
      fail("node '{}': Resize has {} scales for {} axes", request.node.name, scales.size(),
           axes.size());
    if (std::ranges::any_of(scales,
                            [](double scale) { return !(scale > 0 && std::isfinite(scale)); }))
      fail("node '{}': Resize wants finite scales above 0", request.node.name);
    return scales;
  }
  const std::vector<std::int64_t> sizes = constant_integers(request, 3, "sizes");
  if (sizes.size() != axes.size())
    fail("node '{}': Resize has {} sizes for {} axes", request.node.name, sizes.size(),
         axes.size());
  const auto ratio = [&](std::size_t i) {
    return static_cast<double>(sizes[i]) / static_cast<double>(in[axes[i]]);
  };
  for (std::size_t i = 0; i < axes.size(); ++i) scales.push_back(ratio(i));
  const std::string policy = request.node.string_attribute("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || scales.empty()) {
    // A share of a split dimension has its own extent.
    for (std::size_t i = 0; i < axes.size(); ++i)
      scales[i] = static_cast<double>(out[axes[i]]) / static_cast<double>(in[axes[i]]);
    return scales;
  }
  if (policy != "not_larger" && policy != "not_smaller")
    fail("node '{}': Resize has no keep_aspect_ratio_policy '{}'", request.node.name, policy);
  const double scale = policy == "not_larger" ? *std::ranges::min_element(scales)
                                              : *std::ranges::max_element(scales);
  return std::vector<double>(axes.size(), scale);
}

}  // namespace

bool AxisTable::is_identity() const {
  if (in != out) return false;
  for (std::int64_t i = 0; i < out; ++i) {
    double own = 0;
    double others = 0;
    for (std::int64_t k = i * taps; k < (i + 1) * taps; ++k) {
      const auto at = static_cast<std::size_t>(k);
      (places[at] == i ? own : others) += std::abs(weights[at]);
    }
    if (own != 1 || others != 0) return false;
  }
  return true;
}

Resizing resizing_of(const KernelRequest& request) {
  const Shape& in = request.inputs.at(0).shape;
  const Shape& out = request.outputs.at(0).shape;
  std::vector<std::size_t> axes;
  if (request.node.has_attribute("axes")) {
    for (const std::int64_t axis : request.node.ints_attribute("axes", {}))
      axes.push_back(checked_axis(request, axis, in.size()));
  } else {
    for (std::size_t d = 0; d < in.size(); ++d) axes.push_back(d);
  }
  const TableMaker maker(request);
  Resizing resizing;
  resizing.mode = maker.mode();
  resizing.extrapolation_value =
      static_cast<double>(request.node.float_attribute("extrapolation_value", 0.0F));
  if (request.outputs[0].elements() == 0) return resizing;
  const std::vector<double> scales = scales_of(request, axes);
  std::vector<double> roi;
  if (maker.crops()) {
    roi = constant_floats(request, 1, "roi");
    if (roi.size() != 2 * axes.size())
      fail("node '{}': tf_crop_and_resize wants a region of {} numbers, not {}", request.node.name,
           2 * axes.size(), roi.size());
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = axes[i];
    if (in[axis] < 1 || in[axis] > std::numeric_limits<std::int32_t>::max())
      fail("node '{}': Resize of a dimension of {} has no kernel", request.node.name, in[axis]);
    AxisTable table = maker.make(axis, in[axis], out[axis], scales[i], roi.empty() ? 0 : roi[i],
                                 roi.empty() ? 1 : roi[axes.size() + i]);
    if (!table.is_identity()) resizing.axes.push_back(std::move(table));
  }
  std::ranges::sort(resizing.axes, std::ranges::greater{}, &AxisTable::axis);
  return resizing;
}

}  // namespace autopar::runtime
