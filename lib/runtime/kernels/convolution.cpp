#include "runtime/kernels/convolution.h"

#include <algorithm>

namespace autopar::runtime {

Convolution convolution_of(const KernelRequest& request) {
  const graph::Node& node = request.node;
  const Shape& in = request.inputs[0].shape;
  const Shape& weights = request.inputs[1].shape;
  const Shape& out = request.outputs[0].shape;
  const std::size_t spatial = in.size() - 2;
  Convolution convolution;
  convolution.groups = node.int_attribute("group", 1);
  convolution.strides = node.ints_attribute("strides", std::vector<std::int64_t>(spatial, 1));
  convolution.dilations = node.ints_attribute("dilations", std::vector<std::int64_t>(spatial, 1));
  convolution.has_bias = request.inputs.size() > 2 && request.inputs[2].present();
  const auto pads = node.ints_attribute("pads", std::vector<std::int64_t>(2 * spatial, 0));
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t covered = (out[i + 2] - 1) * convolution.strides[i] +
                                 (weights[i + 2] - 1) * convolution.dilations[i] + 1;
    std::int64_t begin = pads[i];
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const std::int64_t total = std::max<std::int64_t>(0, covered - in[i + 2]);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (auto_pad == "VALID") {
      begin = 0;
    }
    convolution.begin_pads.push_back(begin);
    convolution.end_pads.push_back(covered - in[i + 2] - begin);
  }
  return convolution;
}

}  // namespace autopar::runtime
