#include <emulation.h>
#include <catch2/catch.hpp>

#include <random>

#include "runtime/devices/cuda/cuda_device.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::cuda {
namespace {

using testing::random_in;

graph::Graph two_transposes() {
  graph::Graph graph;
  graph.opsets = {{"", 20}};
  const auto value = [&](const char* name, Shape shape) {
    return graph.add_value({name, DataType::float32, std::move(shape), std::nullopt});
  };
  const auto x = value("x", {3, 5, 7});
  const auto y = value("y", {5, 3, 7});
  const auto z = value("z", {7, 3, 5});
  using Permutation = std::vector<std::int64_t>;
  graph.nodes.push_back({"first", "Transpose", "", {x}, {y}, {{"perm", Permutation{1, 0, 2}}}});
  graph.nodes.push_back({"second", "Transpose", "", {y}, {z}, {{"perm", Permutation{2, 1, 0}}}});
  graph.inputs = {x};
  graph.outputs = {z};
  return graph;
}

TEST_CASE("Tensors of many pieces arrive, and what was beside them stays") {
  std::mt19937 random(1);
  CudaDevice device({});
  const graph::Tensor large = random_in(DataType::float32, {3, 1 << 20}, random, -1, 1);
  const graph::Tensor small = random_in(DataType::uint8, {5}, random, 0, 255);
  const auto memory = device.allocate(large.size_bytes() + 64);
  device.fill(memory.get(), std::byte{7}, large.size_bytes() + 64, device.compute_stream());
  const Device::Upload uploads[] = {{&large, memory.get()},
                                    {&small, memory.get() + large.size_bytes() + 16}};
  cudaStreamSynchronize(device.compute_stream());
  device.upload(uploads);
  std::vector<std::byte> all(static_cast<std::size_t>(large.size_bytes() + 64), std::byte{7});
  auto expected = all;
  std::ranges::copy(large.bytes(), expected.begin());
  std::ranges::copy(small.bytes(), expected.begin() + large.size_bytes() + 16);
  device.read(all, memory.get());
  CHECK(all == expected);
}

TEST_CASE("Copies to and from the host come after all that either stream has") {
  CudaDevice device({});
  const auto memory = device.allocate(4);
  std::vector<std::byte> read(4);
  for (int i = 1; i < 20; ++i) {
    emulation::set_seed(static_cast<std::uint64_t>(i));
    for (void* stream : {static_cast<void*>(device.compute_stream()), device.collective_queue()}) {
      const std::vector<std::byte> written(4, std::byte{1});
      device.fill(memory.get(), std::byte{2}, 4, stream);
      device.write(memory.get(), written);
      device.read(read, memory.get());
      CHECK(read == written);
      device.fill(memory.get(), std::byte{3}, 4, stream);
      device.read(read, memory.get());
      CHECK(read == std::vector<std::byte>(4, std::byte{3}));
    }
  }
}

TEST_CASE("Every run after the first is one launch without allocation") {
  std::mt19937 random(1);
  const graph::Graph graph = two_transposes();
  const graph::Tensor x = random_in(DataType::float32, {3, 5, 7}, random, -1, 1);
  Executable cpu(graph, {});
  const graph::Tensor expected = testing::run(cpu, graph, {x}).front();
  CudaDevice device({});
  Executable executable(graph, {.device = &device});
  CHECK(std::ranges::equal(testing::run(executable, graph, {x}).front().bytes(), expected.bytes()));
  executable.write_input(0, x);
  const auto before = emulation::counters();
  executable.run();
  const auto after = emulation::counters();
  CHECK(after.graph_launches - before.graph_launches == 1);
  CHECK(after.launches == before.launches);
  CHECK(after.allocations == before.allocations);
  CHECK(after.synchronisations == before.synchronisations);
  CHECK(std::ranges::equal(executable.read_output(0).bytes(), expected.bytes()));
}

TEST_CASE("Memory that does not suffice is told with what would") {
  CudaDevice device({});
  CHECK_THROWS_WITH(device.allocate(std::int64_t{1} << 40),
                    Catch::Contains("needs 1024.00 GiB") && Catch::Contains("--memory"));
}

TEST_CASE("A GPU that is not there is named") {
  CHECK_THROWS_WITH(CudaDevice({.gpu = 99}), Catch::Contains("no GPU 99"));
}

}  // namespace
}  // namespace autopar::runtime::cuda
