#include <emulation.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/temporary_folder.h"
#include "base/work_signs.h"
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

struct Impatient final : WorkListener {
  void note_work() override { fail("nobody waits any longer"); }
};

TEST_CASE("Parts of a file of any size and place arrive, by any number of threads") {
  CudaDevice device({.threads = GENERATE(1, 2, 3, 8, 100)});
  std::mt19937 random(static_cast<unsigned>(device.number() + 1));
  constexpr std::int64_t mebi = 1 << 20;
  const TemporaryFolder folder;
  const graph::Tensor all = random_in(DataType::uint8, {21 * mebi + 3}, random, 0, 255);
  std::ofstream(folder / "weights")
      .write(reinterpret_cast<const char*>(all.data()), all.size_bytes());
  const auto file = MappedFile::open(folder / "weights");
  std::vector<graph::Tensor> tensors;
  std::int64_t begin = 1;
  for (const std::int64_t bytes :
       {std::int64_t{3}, 2 * mebi, std::int64_t{0}, 2 * mebi - 1, 2 * mebi + 1, std::int64_t{1},
        std::int64_t{255}, mebi, mebi, mebi + 1, 9 * mebi + 5, std::int64_t{7}}) {
    tensors.push_back(
        graph::Tensor::mapped(DataType::uint8, Shape{bytes}, file->bytes().data() + begin, file));
    begin += bytes;
  }
  tensors.push_back(random_in(DataType::uint8, {3 * mebi}, random, 0, 255));  // of no file

  const auto memory = device.allocate(32 * mebi);
  device.fill(memory.get(), std::byte{7}, 32 * mebi, device.compute_stream());
  cudaStreamSynchronize(device.compute_stream());
  std::vector<std::byte> expected(static_cast<std::size_t>(32 * mebi), std::byte{7});
  std::vector<Device::Upload> uploads;
  std::int64_t place = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    uploads.push_back({&tensors[i], memory.get() + place});
    std::ranges::copy(tensors[i].bytes(), expected.begin() + place);
    place += tensors[i].size_bytes() + static_cast<std::int64_t>(i % 3 * 16);
  }
  device.upload(uploads);
  std::vector<std::byte> found(expected.size());
  device.read(found, memory.get());
  CHECK(found == expected);
}

TEST_CASE("What fails while weights are copied ends all threads, and the next copy is whole") {
  CudaDevice device({.threads = 8});
  std::mt19937 random(1);
  const graph::Tensor large = random_in(DataType::uint8, {(40 << 20) + 5}, random, 0, 255);
  const auto memory = device.allocate(large.size_bytes());
  const Device::Upload upload{&large, memory.get()};
  {
    Impatient listener;
    const WorkScope work(&listener);
    CHECK_THROWS_WITH(device.upload({&upload, 1}), "nobody waits any longer");
  }
  device.upload({&upload, 1});
  std::vector<std::byte> found(large.bytes().size());
  device.read(found, memory.get());
  CHECK(std::ranges::equal(found, large.bytes()));
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
