#include "runtime/kernels/normalization/channel_normalization.h"

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

/// Throws Error for a type that is no float, or for numbers that are not one a channel.
ChannelGroups channel_groups_of(const KernelRequest& request) {
  for (const TensorView& input : request.inputs)
    if (!visit_type(input.type, Joined<Floats, Halves>{}, [](auto) {}))
      fail_type(request, input.type);
  const Shape& shape = request.inputs.at(0).shape;
  ChannelGroups groups;
  groups.epsilon = static_cast<double>(request.node.float_attribute("epsilon", 1e-5F));
  if (shape.empty())
    fail("node '{}': {} of a scalar has no channels", request.node.name, request.node.op_type);
  groups.images = shape[0];
  groups.channels = shape.size() > 1 ? shape[1] : 1;
  for (std::size_t d = 2; d < shape.size(); ++d) groups.places *= shape[d];
  for (std::size_t i = 1; i < request.inputs.size(); ++i)
    if (request.inputs[i].elements() != groups.channels)
      fail("node '{}': input {} of {} has {} numbers for {} channels", request.node.name, i,
           request.node.op_type, request.inputs[i].elements(), groups.channels);
  return groups;
}

}  // namespace

GroupNormalization::GroupNormalization(const KernelRequest& request)
    : groups_(channel_groups_of(request)) {
  groups_.groups = request.node.int_attribute("num_groups", groups_.channels);
  if (groups_.channels > 0 && (groups_.groups < 1 || groups_.channels % groups_.groups != 0))
    fail("node '{}': {} channels do not make {} groups", request.node.name, groups_.channels,
         groups_.groups);
  for (const TensorView& input : request.inputs)
    if (input.type != request.inputs[0].type) fail_type(request, input.type);
}

BatchNormalization::BatchNormalization(const KernelRequest& request)
    : groups_(channel_groups_of(request)),
      trains_(request.node.int_attribute("training_mode", 0) != 0),
      momentum_(static_cast<double>(request.node.float_attribute("momentum", 0.9F))) {}

}  // namespace autopar::runtime
