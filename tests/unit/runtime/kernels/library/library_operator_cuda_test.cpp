// A library's CUDA kernel works on the device's memory, on the stream that it is given.

#include <cuda_runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "graph/operators/library_operator.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/executable.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime {
namespace {

using Catch::Contains;
using graph::Tensor;

constexpr const char* domain = "test.cuda";

int same_shape(const AutoparNode* node, AutoparOutput* outputs, char*) {
  outputs[0].type = node->inputs[0].type;
  outputs[0].rank = node->inputs[0].rank;
  std::copy_n(node->inputs[0].shape, node->inputs[0].rank, outputs[0].shape);
  return 0;
}

int on_cpu(const AutoparRun*, char*) { return 1; }

__global__ void fill(float* scratch, float value) { scratch[threadIdx.x] = value; }
__global__ void add_scratch(const float* x, const float* scratch, float* y) {
  y[threadIdx.x] = x[threadIdx.x] + scratch[threadIdx.x];
}

template <typename... Parameters, typename... Arguments>
void launch(const AutoparRun& run, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = static_cast<unsigned>(run.outputs[0].shape[0]);
  config.stream = static_cast<cudaStream_t>(run.stream);
  REQUIRE(run.stream != nullptr);
  REQUIRE(cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess);
}

/// y = x + shift, by way of the scratch memory.
int shift_on_cuda(const AutoparRun* run, char*) {
  const float* shift = nullptr;
  if (run->node->floats(run->node, "shift", &shift) != 1) return 1;
  auto* const scratch = static_cast<float*>(run->scratch);
  launch(*run, fill, scratch, *shift);
  launch(*run, add_scratch, static_cast<const float*>(run->inputs[0].data),
         static_cast<const float*>(scratch), static_cast<float*>(run->outputs[0].data));
  return 0;
}

int scratch_bytes(const AutoparNode*, const AutoparTensor* outputs, std::int64_t* bytes, char*) {
  *bytes = 4 * outputs[0].shape[0];
  return 0;
}

/// Two nodes of the operator, one after the other, on 40 elements.
graph::Graph twice(const char* name) {
  graph::Graph graph;
  graph.opsets = {{"", 20}, {domain, 1}};
  for (const char* value : {"x", "y", "z"})
    graph.add_value({value, DataType::float32, {40}, std::nullopt});
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes = {{"first", name, domain, {0}, {1}, {{"shift", 0.5F}}},
                 {"second", name, domain, {1}, {2}, {{"shift", 2.0F}}}};
  return graph;
}

void add(const char* name, AutoparKernel cuda) {
  auto* const op = new AutoparOperator{};  // libraries are never unloaded
  op->domain = domain;
  op->name = name;
  op->version = 1;
  op->min_inputs = op->max_inputs = op->min_outputs = op->max_outputs = 1;
  op->shapes = same_shape;
  op->cpu = on_cpu;
  op->cuda = cuda;
  op->cuda_scratch_bytes = scratch_bytes;
  graph::add_operators({AUTOPAR_OPERATOR_ABI, 1, op}, "lib.so");
}

TEST_CASE(
    "a library's CUDA kernel runs on its stream, with its scratch memory, any number of times") {
  add("Shift", shift_on_cuda);
  Executable executable(twice("Shift"), {.device = testing::device_under_test()});
  for (int run = 0; run < 4; ++run) {
    const std::vector<float> x(40, static_cast<float>(run));
    executable.write_input(0, Tensor::of_float({40}, x));
    executable.run();
    const Tensor result = executable.read_output(0);
    const auto is_shifted = [&](float value) { return value == static_cast<float>(run) + 2.5F; };
    CHECK(std::ranges::all_of(result.values<float>(), is_shifted));
  }
}

TEST_CASE("an operator without a CUDA kernel is refused on a GPU by name, with advice") {
  add("HostOnly", nullptr);
  CHECK_THROWS_WITH(
      Executable(twice("HostOnly"), {.device = testing::device_under_test()}),
      Contains("node 'first': operator test.cuda::HostOnly has no CUDA kernel (2 nodes in all)") &&
          Contains("run with --device cpu"));
}

}  // namespace
}  // namespace autopar::runtime
