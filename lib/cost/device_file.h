#pragma once

#include <filesystem>
#include <string>

#include "cost/device_model.h"

namespace autopar::cost {

/// Reads a device file: a JSON object of SI units with the fields that docs/costs.md explains and
/// device.schema.json lists, and no others. Rates and sizes are from 1 to 1e24, times from 0 to
/// 1000 s. Throws Error that names the file and the field that is missing, unknown or malformed.
DeviceModel load_device_file(const std::filesystem::path& file);

/// A device file's text; load_device_file makes the same model of it.
std::string device_json(const DeviceModel& device);
/// Throws Error where such a file cannot be written, or is there and may not be replaced; leaves
/// none.
void check_device_file(const std::filesystem::path& file, bool force);
/// Whole or not at all (base/whole_file.h).
void save_device_file(const std::filesystem::path& file, const DeviceModel& device);
/// The same; throws Error where something is there by now.
void save_new_device_file(const std::filesystem::path& file, const DeviceModel& device);

}  // namespace autopar::cost
