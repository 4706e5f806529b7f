#include "runtime/kernels/movement/padding.h"

#include <map>
#include <numeric>

#include "base/checked.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

Padding padding_of(const KernelRequest& request) {
  static const std::map<std::string, PadMode> by_name = {{"constant", PadMode::constant},
                                                         {"edge", PadMode::edge},
                                                         {"reflect", PadMode::reflect},
                                                         {"wrap", PadMode::wrap}};
  const Shape& from = request.inputs.at(0).shape;
  const std::size_t rank = from.size();
  const auto pads = constant_integers(request, 1, "pads");
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  axes = constant_integers(request, 3, "axes", std::move(axes));
  if (pads.size() != 2 * axes.size())
    fail("node '{}': Pad needs two pads an axis, and has {} for {} axes", request.node.name,
         pads.size(), axes.size());
  const std::string mode = request.node.string_attribute("mode", "constant");
  const auto found = by_name.find(mode);
  if (found == by_name.end())
    fail("node '{}': mode '{}' of Pad has no {} kernel", request.node.name, mode,
         request.device.kernels().device);
  Padding padding{found->second, std::vector<std::int64_t>(rank, 0)};
  Shape padded = from;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = checked_axis(request, axes[i], rank);
    padding.before[axis] = pads[i];
    const std::int64_t both = checked_add(pads[i], pads[i + axes.size()], "the pads of Pad");
    padded[axis] = checked_add(from[axis], both, "the padded extent");
  }
  if (padded != request.outputs.at(0).shape)
    fail("node '{}': Pad makes {}, which is not {}", request.node.name, graph::to_string(padded),
         graph::to_string(request.outputs[0].shape));
  for (std::size_t d = 0; d < rank; ++d)
    if (padding.mode != PadMode::constant && from[d] == 0 && request.outputs.at(0).shape[d] > 0)
      fail("node '{}': Pad cannot extend an empty dimension", request.node.name);
  return padding;
}

}  // namespace autopar::runtime
