#pragma once

#include <algorithm>

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

/// A request of such an operator as one of ONNX's, whose images have their channels second.
inline KernelRequest with_channels_second(KernelRequest request) {
  request.inputs[0].shape = as_channels_second(request.inputs[0].shape);
  request.outputs[0].shape = as_channels_second(request.outputs[0].shape);
  return request;
}

}  // namespace autopar::runtime
