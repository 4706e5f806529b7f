#pragma once

#include <algorithm>
#include <numeric>

#include "runtime/kernel.h"

/// Images whose channels are their last dimension, as the compiler's operators ChannelsLast... have
/// them; ONNX has them second.
namespace autopar::runtime {

inline Shape as_channels_last(Shape shape) {
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

inline Shape as_channels_second(Shape shape) {
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// The permutations by which a Transpose moves channels there, of images of so many dimensions.
inline std::vector<std::int64_t> permutation_to_last(std::size_t rank) {
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  return as_channels_last(order);
}

inline std::vector<std::int64_t> permutation_to_second(std::size_t rank) {
  Shape order(rank);
  std::iota(order.begin(), order.end(), 0);
  return as_channels_second(order);
}

/// An operator of these that has it as 1 reads its image as ONNX has it.
inline constexpr const char* channels_second_attribute = "channels_second";

inline bool reads_channels_second(const graph::Node& node) {
  return node.int_attribute(channels_second_attribute, 0) != 0;
}

/// A request of such an operator as one of ONNX's, whose images have their channels second.
inline KernelRequest with_channels_second(KernelRequest request) {
  if (!reads_channels_second(request.node))
    request.inputs[0].shape = as_channels_second(request.inputs[0].shape);
  request.outputs[0].shape = as_channels_second(request.outputs[0].shape);
  return request;
}

}  // namespace autopar::runtime
