#pragma once

#include <algorithm>

#include "unit/runtime/loops.h"

/// Windows over images as ONNX's operators describe them, at random.
namespace autopar::runtime::testing {

using Integers = std::vector<std::int64_t>;

struct RandomWindows {
  Shape in;
  Shape out;
  Integers taps;
  Integers strides;
  Integers dilations;
  Integers begin_pads;
  Integers end_pads;  ///< the node's own, or those that auto_pad tells
  std::map<std::string, Attribute> attributes;

  /// The input's place under a tap of the window at `place`; nullopt in the padding.
  std::optional<Shape> seen(const Shape& place, const Shape& tap) const {
    Shape at(in.size());
    for (std::size_t d = 0; d < in.size(); ++d) {
      at[d] = place[d] * strides[d] + tap[d] * dilations[d] - begin_pads[d];
      if (at[d] < 0 || at[d] >= in[d]) return std::nullopt;
    }
    return at;
  }
  /// Whether it lies in the image or the padding, and not beyond.
  bool is_padded(const Shape& place, const Shape& tap) const {
    for (std::size_t d = 0; d < in.size(); ++d)
      if (place[d] * strides[d] + tap[d] * dilations[d] >= begin_pads[d] + in[d] + end_pads[d])
        return false;
    return true;
  }
};

enum class Rounding { down, up };

/// With pads below a window's reach, so that all windows see the image, for `spatial` dimensions.
inline RandomWindows random_windows(std::mt19937& random, std::size_t spatial,
                                    const std::string& auto_pad, Rounding rounding) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  RandomWindows windows;
  Integers pads(2 * spatial, 0);
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t taps = pick(1, 3);
    const std::int64_t dilation = pick(1, 2);
    const std::int64_t stride = pick(1, 3);
    const std::int64_t reach = (taps - 1) * dilation + 1;
    const std::int64_t in = reach + pick(0, 5);
    std::int64_t begin = pick(0, static_cast<int>(taps - 1));
    std::int64_t end = pick(0, static_cast<int>(taps - 1));
    std::int64_t out = 0;
    if (auto_pad == "NOTSET") {
      pads[d] = begin;
      pads[spatial + d] = end;
      const std::int64_t room = in + begin + end - reach;
      out = (rounding == Rounding::up ? (room + stride - 1) / stride : room / stride) + 1;
      if (rounding == Rounding::up && (out - 1) * stride >= in + begin) --out;
    } else if (auto_pad == "VALID") {
      begin = end = 0;
      out = (in - reach) / stride + 1;
    } else {
      out = (in + stride - 1) / stride;
      const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * stride + reach - in);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : (total + 1) / 2;
      end = total - begin;
    }
    windows.in.push_back(in);
    windows.out.push_back(out);
    windows.taps.push_back(taps);
    windows.strides.push_back(stride);
    windows.dilations.push_back(dilation);
    windows.begin_pads.push_back(begin);
    windows.end_pads.push_back(end);
  }
  windows.attributes = {{"strides", windows.strides}, {"dilations", windows.dilations}};
  if (auto_pad == "NOTSET")
    windows.attributes["pads"] = pads;
  else
    windows.attributes["auto_pad"] = auto_pad;
  return windows;
}

inline const std::vector<std::string> auto_pads = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};

inline Shape joined(Shape head, const Shape& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

/// The element of images at [image, channel, place].
inline double pixel(const Tensor& images, std::int64_t image, std::int64_t channel,
                    const Shape& place) {
  return at(images, joined({image, channel}, place));
}

}  // namespace autopar::runtime::testing
