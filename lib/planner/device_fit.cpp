#include "planner/device_fit.h"

#include <algorithm>
#include <memory>

#include "runtime/kernels/cuda_operators.h"
#include "runtime/run_bytes.h"

namespace autopar::planner {

std::vector<const runtime::KernelTable*> kernels_for(const cost::DeviceModel& device) {
  if (device.runs_on == "cpu") return {&runtime::cpu_kernels()};
  if (device.runs_on == "cuda") return {&runtime::cuda_operators(), &runtime::cpu_kernels()};
  return {&runtime::cpu_kernels(), &runtime::cuda_operators()};
}

void fit_to_model(std::vector<cost::CostModel>& models, const graph::Graph& graph) {
  cost::DeviceModel device = models.front().device();
  const runtime::KernelTable& kernels = *kernels_for(device).front();
  device.without_memory =
      std::make_shared<const cost::ValueNames>(runtime::values_without_memory(graph, kernels));
  if (device.runs_on == "cpu" && device.collectives == nullptr)
    device.channels_last =
        std::make_shared<const cost::ValueNames>(runtime::channels_last_values(graph, kernels));
  if (device.is_fusing)
    device.fused = std::make_shared<const cost::ValueNames>(runtime::fused_values(graph, kernels));
  // A run reads each weight once; where they are few, a cache holds them as it holds all else.
  if (device.is_fusing && device.weight_bytes_per_second > 0) {
    const auto weights = static_cast<double>(graph::weight_bytes(graph));
    device.weight_bytes_per_second =
        std::max(device.weight_bytes_per_second, device.memory_bytes_per_second.at(weights));
  }
  for (cost::CostModel& model : models) model = cost::CostModel(device, model.mesh());
}

program::RunBytes run_bytes_on(const cost::DeviceModel& device) {
  return [kernels = kernels_for(device)](const graph::Graph& graph, int microbatches) {
    return runtime::packed_graph(graph, kernels, microbatches).bytes;
  };
}

program::RunGraph run_graph_on(const cost::DeviceModel& device, const graph::Graph& rank_graph) {
  runtime::PackedGraph packed =
      runtime::packed_graph(rank_graph, kernels_for(device), /*microbatches=*/1);
  const std::int64_t weights = graph::constant_bytes(rank_graph);
  return {std::move(packed.graph), std::move(packed.lifetimes), {weights, weights + packed.bytes}};
}

}  // namespace autopar::planner
