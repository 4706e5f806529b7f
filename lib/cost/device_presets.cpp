#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cost/device_file.h"

namespace autopar::cost {
namespace {

using graph::DataType;

// No data sheet tells these; they are the usual order of magnitude of a kernel launch, of an NCCL
// step over NVLink, and of one over PCIe through the host.
constexpr double gpu_launch = 4e-6;
constexpr double nvlink_latency = 3e-6;
constexpr double pcie_latency = 1e-5;
// Between machines: an NCCL step over InfiniBand with GPUDirect, and one over TCP.
constexpr double infiniband_latency = 1e-5;
constexpr double ethernet_latency = 5e-5;

constexpr double tera = 1e12;
constexpr double giga = 1e9;

/// Common devices, each with its source. Arithmetic is dense and, for float32, without TF32; link
/// bandwidth is one direction's, half of what data sheets add up.
std::vector<DeviceModel> make_presets() {
  const std::map<DataType, SizedRate> hopper{
      {DataType::float64, 67 * tera},        {DataType::float32, 67 * tera},
      {DataType::float16, 989.5 * tera},     {DataType::bfloat16, 989.5 * tera},
      {DataType::float8e4m3fn, 1979 * tera}, {DataType::float8e5m2, 1979 * tera},
      {DataType::int8, 1979 * tera},         {DataType::uint8, 1979 * tera},
  };
  std::vector<DeviceModel> presets{
      {.name = "h200",
       .source = "NVIDIA H200 Tensor Core GPU data sheet, SXM: half of the rates with sparsity, "
                 "141 GB, 4.8 TB/s, NVLink 900 GB/s both ways; latencies estimated",
       .flops_per_second = hopper,
       .memory_bytes_per_second = 4800 * giga,
       .memory_bytes = 141'000'000'000,
       .links = {{nvlink_latency, 450 * giga}}},
      {.name = "h100",
       .source = "NVIDIA H100 Tensor Core GPU data sheet, SXM: half of the rates with sparsity, "
                 "80 GB, 3.35 TB/s, NVLink 900 GB/s both ways; latencies estimated",
       .flops_per_second = hopper,
       .memory_bytes_per_second = 3350 * giga,
       .memory_bytes = 80'000'000'000,
       .links = {{nvlink_latency, 450 * giga}}},
      {.name = "a100",
       .source = "NVIDIA A100 Tensor Core GPU data sheet, 80GB SXM: dense rates, 80 GB, "
                 "2,039 GB/s, NVLink 600 GB/s both ways; latencies estimated",
       .flops_per_second = {{DataType::float64, 19.5 * tera},
                            {DataType::float32, 19.5 * tera},
                            {DataType::float16, 312 * tera},
                            {DataType::bfloat16, 312 * tera},
                            {DataType::int8, 624 * tera},
                            {DataType::uint8, 624 * tera}},
       .memory_bytes_per_second = 2039 * giga,
       .memory_bytes = 80'000'000'000,
       .links = {{nvlink_latency, 300 * giga}}},
      {.name = "v100",
       .source = "NVIDIA V100 Tensor Core GPU data sheet, 32GB SXM2: 900 GB/s, NVLink 300 GB/s "
                 "both ways; no bfloat16 unit, so float32's rate; latencies estimated",
       .flops_per_second = {{DataType::float64, 7.8 * tera},
                            {DataType::float32, 15.7 * tera},
                            {DataType::float16, 125 * tera}},
       .memory_bytes_per_second = 900 * giga,
       .memory_bytes = 32'000'000'000,
       .links = {{nvlink_latency, 150 * giga}}},
      {.name = "l4",
       .source = "NVIDIA L4 Tensor Core GPU data sheet: half of the rates with sparsity, 24 GB, "
                 "300 GB/s, PCIe Gen4 x16 64 GB/s both ways; latencies estimated",
       .flops_per_second = {{DataType::float32, 30.3 * tera},
                            {DataType::float16, 121 * tera},
                            {DataType::bfloat16, 121 * tera},
                            {DataType::float8e4m3fn, 242.5 * tera},
                            {DataType::float8e5m2, 242.5 * tera},
                            {DataType::int8, 242.5 * tera},
                            {DataType::uint8, 242.5 * tera}},
       .memory_bytes_per_second = 300 * giga,
       .memory_bytes = 24'000'000'000,
       .links = {{pcie_latency, 32 * giga}}},
  };
  for (DeviceModel& gpu : presets) {
    gpu.launch_seconds = gpu_launch;
    gpu.runs_on = "cuda";
  }
  DeviceModel& h100_cluster = presets.emplace_back(presets[1]);
  h100_cluster.name = "h100-cluster";
  h100_cluster.source =
      "128 nodes of 8 H100, 1,024 GPUs: the h100 preset within a node; NVIDIA DGX H100 data sheet: "
      "8 ports of 400 Gb/s InfiniBand a node for compute, one a GPU, so 50 GB/s one way; latencies "
      "estimated";
  h100_cluster.links.push_back({infiniband_latency, 50 * giga});
  h100_cluster.gpus_per_node = 8;
  h100_cluster.nodes = 128;
  DeviceModel& l4_ethernet = presets.emplace_back(presets[4]);
  l4_ethernet.name = "l4-ethernet";
  l4_ethernet.source =
      "nodes of 4 L4 (the l4 preset, PCIe Gen4 between them) with one port of 25 Gb/s Ethernet "
      "(IEEE 802.3by): 3.125 GB/s one way, a quarter of it a GPU, since all four send at once; "
      "latencies estimated";
  l4_ethernet.links.push_back({ethernet_latency, 3.125 * giga / 4});
  l4_ethernet.gpus_per_node = 4;
  presets.push_back(
      {.name = "cpu",
       .source = "round numbers for a rank of a few cores on a shared-memory server, no data "
                 "sheet; for a particular machine write a device file",
       .flops_per_second = {{DataType::float32, 0.1 * tera}, {DataType::float64, 0.05 * tera}},
       .memory_bytes_per_second = 10 * giga,
       .launch_seconds = 2e-6,
       .runs_on = "cpu",
       .memory_bytes = 16'000'000'000,
       .links = {{1e-5, 4 * giga}}});
  return presets;
}

const std::vector<DeviceModel>& device_presets() {
  static const std::vector<DeviceModel> presets = make_presets();
  return presets;
}

}  // namespace

DeviceModel load_device_model(const std::string& name_or_file) {
  const auto& presets = device_presets();
  const auto preset = std::ranges::find(presets, name_or_file, &DeviceModel::name);
  if (preset != presets.end()) return *preset;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_file, ignored))
    return load_device_file(name_or_file);
  fail("device '{}' is neither a preset ({}) nor a file; give one of them", name_or_file,
       fmt::join(device_preset_names(), ", "));
}

std::vector<std::string> device_preset_names() {
  std::vector<std::string> names;
  for (const DeviceModel& preset : device_presets()) names.push_back(preset.name);
  return names;
}

}  // namespace autopar::cost
