// Pipelines on emulated GPUs: a thread and a GPU a rank, messages by NCCL or through the host.

#include <emulation.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/collectives.h"
#include "runtime/comm/nccl_launch.h"
#include "runtime/comm/ranks.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/executable.h"
#include "runtime/trace.h"
#include "unit/runtime/pipeline_sketch.h"

namespace autopar::runtime::cuda {
namespace {

using namespace runtime::testing;
using std::chrono::milliseconds;

/// As many GPUs as the sketch has ranks, while it lives.
struct Gpus {
  explicit Gpus(int count) {
    setenv("AUTOPAR_EMULATED_GPUS", std::to_string(count).c_str(), 1);
    emulation::reset();
  }
  ~Gpus() {
    unsetenv("AUTOPAR_EMULATED_GPUS");
    emulation::reset();
  }
};

using Work =
    std::function<void(CudaDevice& device, HostCommunicator& host, DeviceCommunicator& world)>;

void on_gpus(int ranks, bool by_nccl, milliseconds timeout, const Work& work) {
  Ranks::in_threads(ranks, timeout)
      .run_as_rank([&](HostCommunicator& host, const LocalRanks& local) {
        CudaDevice device({.gpu = local.rank});
        const std::unique_ptr<DeviceCommunicator> world(
            by_nccl
                ? autopar_make_nccl_communicator(&host, device.collective_queue(), timeout.count())
                : make_staged_communicator(device, host).release());
        work(device, host, *world);
      });
}

TEST_CASE("A pipeline on GPUs gives what the whole graph gives, in one launch with NCCL") {
  const bool by_nccl = GENERATE(true, false);
  const int microbatches = GENERATE(1, 2, 5);
  CAPTURE(by_nccl, microbatches);
  const PipelineSketch sketch;
  const Gpus gpus(sketch.world_size());
  std::mt19937 random(4);
  const graph::Graph whole = sketch.whole();
  Executable reference(whole, {.threads = 1});
  std::vector<std::map<std::string, Tensor>> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (int m = 0; m < microbatches; ++m) {
    auto& each = inputs.emplace_back();
    for (const char* name : {"x", "c", "d"})
      each[name] = random_in(DataType::float32, sketch.shape, random, -1, 1);
    expected.push_back(testing::run(reference, whole, {each["x"], each["c"], each["d"]}));
  }
  on_gpus(sketch.world_size(), by_nccl, milliseconds(60'000),
          [&](CudaDevice& device, HostCommunicator& host, DeviceCommunicator& world) {
            CollectiveContext collectives(world, host, milliseconds(60'000));
            collectives.enter_stage(sketch.ranks, &device);
            const graph::Graph graph = sketch.of_rank(world.rank());
            Executable executable(
                graph,
                {.collectives = &collectives, .device = &device, .microbatches = microbatches});
            for (int repetition = 0; repetition < 3; ++repetition) {
              for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
                const std::string& name = graph.value(graph.inputs[i]).name;
                const Layout& layout = name == "x"   ? sketch.first
                                       : name == "c" ? sketch.second
                                                     : sketch.third;
                for (int m = 0; m < microbatches; ++m)
                  executable.write_input(i,
                                         inputs[static_cast<std::size_t>(m)]
                                             .at(name)
                                             .slice(layout.at(world.rank()))
                                             .contiguous_copy(),
                                         m);
              }
              host.barrier();
              if (repetition == 1)
                executable.profile();
              else
                executable.run();
              for (std::size_t i = 0; i < graph.outputs.size(); ++i)
                for (int m = 0; m < microbatches; ++m) {
                  const auto out = doubles(executable.read_output(i, m));
                  const auto wanted = doubles(expected[static_cast<std::size_t>(m)][i]
                                                  .slice(sketch.third.at(world.rank()))
                                                  .contiguous_copy());
                  for (std::size_t e = 0; e < wanted.size(); ++e)
                    if (std::abs(out[e] - wanted[e]) > 1e-5) throw Error("other numbers");
                }
              host.barrier();
            }
            if (by_nccl && executable.launches() != 1) throw Error("more than one launch");
          });
}

TEST_CASE("A stage of GPUs that is not there ends the others") {
  const PipelineSketch sketch;
  const Gpus gpus(sketch.world_size());
  CHECK_THROWS_WITH(
      on_gpus(sketch.world_size(), true, milliseconds(60'000),
              [&](CudaDevice& device, HostCommunicator& host, DeviceCommunicator& world) {
                CollectiveContext collectives(world, host, milliseconds(500));
                collectives.enter_stage(sketch.ranks, &device);
                Executable executable(
                    sketch.of_rank(world.rank()),
                    {.collectives = &collectives, .device = &device, .microbatches = 2});
                host.barrier();
                while (world.rank() == 2) host.check_members();
                executable.run();
              }),
      Catch::Contains("did not finish within 0.5 s") && Catch::Contains("among ranks"));
}

}  // namespace
}  // namespace autopar::runtime::cuda
