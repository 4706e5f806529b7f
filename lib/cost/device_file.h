#pragma once

#include <filesystem>
#include <string>

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
/// one entry a mesh axis, the last one serving all further axes. These fields may be there too:
///
///     "gpus_per_node": 8, "nodes": 128
///
/// Devices stand in nodes of so many consecutive ranks, and `links` has exactly two entries: within
/// a node, and between nodes, which serves every axis that leaves a node. A cluster of so many
/// nodes: no more devices than it has can be planned for.
///
///     "flops_per_second": {"float32": [{"operations": 1e5, "rate": 2e10},
///                                      {"operations": 1e9, "rate": 9e10}]},
///     "memory_bytes_per_second": [{"bytes": 1e5, "rate": 8e10}, {"bytes": 1e8, "rate": 1e10}],
///     "weight_bytes_per_second": 2e10,
///     "overlap": 0.2,
///     "element_seconds": {"Tanh": 1e-9, "Softmax": 2e-9},
///     "fuses": true, "runs_on": "cpu"
///
/// Rates by size (SizedRate, DeviceModel); the rate of reading weights; the part of arithmetic and
/// traffic that overlaps (1 by default); times of operators by element; whether autopar's own
/// runtime runs the shards, whose fusions are then taken into account; and on which kind of device,
/// "cpu" or "cuda", whose memory is then predicted. In a link, "all-reduce", "all-gather",
/// "reduce-scatter" and "all-to-all" may each have an object with a latency and a rate of its own.
/// Rates and sizes are from 1 to 1e24, times from 0 to 1000 s. Throws Error that names the file and
/// the field that is missing, unknown or malformed.
DeviceModel load_device_file(const std::filesystem::path& file);

/// A device file's text; load_device_file makes the same model of it.
std::string device_json(const DeviceModel& device);
/// Throws Error where such a file cannot be written, or is there and may not be replaced; leaves
/// none.
void check_device_file(const std::filesystem::path& file, bool force);
/// Whole or not at all: written beside its place and renamed.
void save_device_file(const std::filesystem::path& file, const DeviceModel& device);

}  // namespace autopar::cost
