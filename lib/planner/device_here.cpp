#include "planner/device_here.h"

#include <algorithm>

#include "base/gpu_names.h"
#include "bundle/meta_info.h"
#include "cost/device_file.h"

namespace autopar::planner {

namespace {

std::optional<cost::DeviceModel> find_preset(const std::string& device) {
  const auto names = cost::device_preset_names();
  if (std::ranges::find(names, device) == names.end()) return std::nullopt;
  return cost::load_device_model(device);
}

/// "cpu" or "cuda"; empty where that is not known.
std::string runs_on(const std::string& device, const std::filesystem::path& bundle_dir) {
  if (const auto preset = find_preset(device)) return preset->runs_on;
  const std::filesystem::path file = bundle_dir / bundle::device_file;
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? cost::load_device_file(file).runs_on : "";
}

}  // namespace

bool is_gpu_preset(const std::string& device) {
  const auto preset = find_preset(device);
  return preset && preset->runs_on == "cuda";
}

bool has_gpu(const std::string& preset) {
  const std::string model = preset.substr(0, preset.find('-'));
  return std::ranges::any_of(gpu_names(),
                             [&model](const std::string& name) { return is_word_of(model, name); });
}

bool is_for_this_device(const std::string& device, const std::filesystem::path& bundle_dir,
                        bool runs_on_gpu) {
  if (runs_on(device, bundle_dir) != (runs_on_gpu ? "cuda" : "cpu")) return false;
  return !is_gpu_preset(device) || has_gpu(device);
}

}  // namespace autopar::planner
