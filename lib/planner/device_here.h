#pragma once

#include <filesystem>
#include <string>

namespace autopar::planner {

/// Whether it names a preset (device_names()) that is a GPU.
bool is_gpu_preset(const std::string& device);
/// Whether the machine has a GPU of such a preset; of a cluster's, "h100-cluster", the GPU counts.
bool has_gpu(const std::string& preset);

/// Whether a bundle that was planned for the device, by its name and, where the bundle has one, by
/// its device file, was planned for what runs it here: the CPU, or this machine's GPUs.
bool is_for_this_device(const std::string& device, const std::filesystem::path& bundle_dir,
                        bool runs_on_gpu);

}  // namespace autopar::planner
