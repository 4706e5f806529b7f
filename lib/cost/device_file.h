#pragma once

#include <filesystem>

#include "cost/device_model.h"

namespace autopar::cost {

/// Reads a device file: a JSON object with all of these fields and no others, SI units, e.g.
///
///     {
///       "name": "my-gpu",
///       "source": "measured on 2025-11-20",
///       "flops_per_second": {"float32": 6.7e13, "float16": 9.9e14},
///       "memory_bytes_per_second": 4.8e12,
///       "launch_seconds": 4e-6,
///       "memory_bytes": 141000000000,
///       "links": [{"latency_seconds": 3e-6, "bytes_per_second": 4.5e11},
///                 {"latency_seconds": 2e-5, "bytes_per_second": 2.5e10}]
///     }
///
/// `flops_per_second` has float32's rate at least; a type without a rate takes that. `links` has
/// one entry a mesh axis, the last one serving all further axes. With one field more,
/// `"gpus_per_node": 8`, devices stand in nodes of so many consecutive ranks, and `links` has
/// exactly two entries: within a node, and between nodes, which serves every axis that leaves a
/// node. Rates are positive, times not
/// negative. Throws Error that names the file and the field that is missing, unknown or malformed.
DeviceModel load_device_file(const std::filesystem::path& file);

}  // namespace autopar::cost
