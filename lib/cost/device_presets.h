#pragma once

#include <span>

#include "cost/device_model.h"

namespace autopar::cost {

/// Common devices, each with its source. Arithmetic is dense and, for float32, without TF32; link
/// bandwidth is one direction's, half of what data sheets add up.
std::span<const DeviceModel> device_presets();

}  // namespace autopar::cost
