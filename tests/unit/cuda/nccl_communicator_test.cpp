// Communicators on GPUs' memory: NCCL's, and those staged through the host. Ranks are threads, each
// with an emulated GPU.

#include <emulation.h>
#include <emulation_nccl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "conformance/communicator_conformance.h"
#include "runtime/collectives.h"
#include "runtime/comm/nccl_launch.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/executable.h"
#include "unit/cuda/on_host_memory.h"
#include "unit/runtime/comm/tcp_world.h"

namespace autopar::runtime::cuda {
namespace {

using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;
using testing::OnHostMemory;

constexpr std::chrono::milliseconds long_enough = std::chrono::seconds(60);
constexpr std::chrono::milliseconds short_time(200);

using Work = std::function<void(CudaDevice& device, HostCommunicator& host)>;

/// Runs a function on every rank, a thread with GPU `gpu_of(rank)`; what each threw, by rank.
std::vector<std::string> errors_on_gpus(
    int ranks, const Work& work, const std::function<int(int)>& gpu_of = [](int r) { return r; }) {
  const auto hosts = make_thread_communicators(ranks, long_enough);
  std::vector<std::string> errors(hosts.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        CudaDevice device({.gpu = gpu_of(static_cast<int>(r))});
        work(device, *hosts[r]);
      } catch (const std::exception& error) {
        errors[r] = error.what();
        hosts[r]->abort();
      }
    });
  }
  threads.clear();
  return errors;
}

void on_gpus(int ranks, const Work& work) {
  const auto errors = errors_on_gpus(ranks, work);
  for (std::size_t r = 0; r < errors.size(); ++r) {
    INFO("rank " << r);
    CHECK(errors[r] == "");
  }
}

/// Catch's macros are for one thread: ranks throw instead.
void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

std::unique_ptr<DeviceCommunicator> nccl_world(CudaDevice& device, HostCommunicator& host,
                                               std::chrono::milliseconds timeout = long_enough) {
  return std::unique_ptr<DeviceCommunicator>(
      autopar_make_nccl_communicator(&host, device.collective_queue(), timeout.count()));
}

/// What a rank does before it calls NCCL: all tell of their GPUs, and rank 0 of the world's name.
void come_to_nccl(HostCommunicator& host) {
  host.barrier(long_enough);
  const GpuId gpu{std::byte{1}};
  std::vector<GpuId> gpus(static_cast<std::size_t>(host.size()));
  host.all_gather(gpu.data(), gpus.front().data(),
                  std::vector<std::int64_t>(gpus.size(), sizeof gpu));
  std::byte id[128];
  host.broadcast(id, sizeof id, 0);
}

/// What a test has in a device's memory.
template <typename T>
class OnDevice {
 public:
  OnDevice(CudaDevice& device, const std::vector<T>& values)
      : device_(device), size_(values.size()), memory_(device.allocate(bytes())) {
    set(values);
  }
  void set(const std::vector<T>& values) {
    device_.write(memory_.get(), std::as_bytes(std::span(values)));
  }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    device_.read(std::as_writable_bytes(std::span(values)), memory_.get());
    return values;
  }
  std::byte* data() const { return memory_.get(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_ * sizeof(T)); }

 private:
  CudaDevice& device_;
  std::size_t size_;
  std::shared_ptr<std::byte> memory_;
};

/// Forgets the faults of a test, however it ends.
struct NcclFaults {
  ~NcclFaults() { emulation::clear_nccl_faults(); }
};

/// Waits as a runner does: until all is done, a rank is known to have failed, or it is late.
void wait_for_stream(CudaDevice& device, DeviceCommunicator& world,
                     std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (cudaStreamQuery(device.collective_stream()) == cudaErrorNotReady) {
    world.check_members();
    if (Clock::now() > deadline) {
      world.abort();
      expect(cudaStreamSynchronize(device.collective_stream()) == cudaSuccess, "aborted work ends");
      fail("late");
    }
  }
  world.check_members();
}

void wait_for_steps(const std::atomic<int>& taken, int steps) {
  for (const auto end = Clock::now() + long_enough; taken < steps; std::this_thread::yield())
    expect(Clock::now() < end, "another rank comes so far");
}

/// A host that tells nothing unless it is asked for the cause: NCCL is always first with the news.
class LateHost final : public HostCommunicator {
 public:
  explicit LateHost(HostCommunicator& host) : host_(host) {}
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, DataType type,
                  ReduceOp op) override {
    host_.all_reduce(in, out, elements, type, op);
  }
  void all_gather(const std::byte* in, std::byte* out, BlockSizes bytes) override {
    host_.all_gather(in, out, bytes);
  }
  void reduce_scatter(const std::byte* in, std::byte* out, BlockSizes elements, DataType type,
                      ReduceOp op) override {
    host_.reduce_scatter(in, out, elements, type, op);
  }
  void all_to_all(const std::byte* in, BlockSizes sent, std::byte* out,
                  BlockSizes received) override {
    host_.all_to_all(in, sent, out, received);
  }
  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    host_.broadcast(data, bytes, root);
  }
  void send(const std::byte* data, std::int64_t bytes, int to) override {
    host_.send(data, bytes, to);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    host_.receive(out, bytes, from);
  }
  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    return host_.subgroup(ranks);
  }
  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    host_.barrier(timeout);
  }
  void check_members() override {}
  void await_cause() override { host_.await_cause(); }
  void abort() noexcept override { host_.abort(); }

 private:
  HostCommunicator& host_;
};

/// A sum over this rank's row of a 2x2 mesh, and what its column has: ready together.
graph::Graph two_collectives(int rank) {
  graph::Graph graph;
  graph.opsets = {{"", 20}, {std::string(graph::collective_domain), 1}};
  const auto value = [&](const char* name, Shape shape) {
    return graph.add_value({name, DataType::float32, std::move(shape), std::nullopt});
  };
  using Ints = std::vector<std::int64_t>;
  const std::string domain(graph::collective_domain);
  const auto x = value("x", {2, 3});
  const auto sum = value("sum", {2, 3});
  const auto all = value("all", {2, 6});
  const Ints row = {rank / 2 * 2, rank / 2 * 2 + 1};
  const Ints column = {rank % 2, rank % 2 + 2};
  graph.nodes.push_back({"in row", "AllReduce", domain, {x}, {sum}, {{"ranks", row}}});
  graph.nodes.push_back({"in column",
                         "AllGather",
                         domain,
                         {x},
                         {all},
                         {{"ranks", column}, {"dim", std::int64_t{1}}, {"sizes", Ints{3, 3}}}});
  graph.inputs = {x};
  graph.outputs = {sum, all};
  return graph;
}

graph::Tensor filled(Shape shape, float value) {
  graph::Tensor tensor = graph::Tensor::zeros(DataType::float32, std::move(shape));
  auto* data = reinterpret_cast<float*>(tensor.mutable_bytes().data());
  std::fill_n(data, tensor.elements(), value);
  return tensor;
}

/// Sets AUTOPAR_PLUGIN_DIR for one test.
struct PluginFolder {
  explicit PluginFolder(const std::string& folder) {
    setenv("AUTOPAR_PLUGIN_DIR", folder.c_str(), /*overwrite=*/1);
  }
  ~PluginFolder() { unsetenv("AUTOPAR_PLUGIN_DIR"); }
};

}  // namespace

TEST_CASE("NCCL conforms to what a communicator must do") {
  on_gpus(GENERATE(1, 2, 3, 4), [](CudaDevice& device, HostCommunicator& host) {
    OnHostMemory world(device, nccl_world(device, host), host);
    check_conformance(world, Reductions::nccl, Callers::one_thread);
  });
}

TEST_CASE("Collectives staged through the host conform to what a communicator must do") {
  on_gpus(GENERATE(1, 2, 3, 4), [](CudaDevice& device, HostCommunicator& host) {
    auto staged = make_staged_communicator(device, host);
    expect(staged->waits_on_host(), "staged collectives wait");
    OnHostMemory world(device, std::move(staged), host);
    check_conformance(world, Reductions::ours, Callers::one_thread);
  });
}

TEST_CASE("A lone rank calls NCCL, too") {
  const NcclFaults faults;
  emulation::hang_at(0, 0);
  on_gpus(1, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    const OnDevice<float> x(device, {1, 2});
    world->all_reduce(x.data(), x.data(), 2, DataType::float32, ReduceOp::sum);
    for (int i = 0; i < 100; ++i)
      expect(cudaStreamQuery(device.collective_stream()) == cudaErrorNotReady, "NCCL hangs");
    world->abort();
    expect(cudaStreamSynchronize(device.collective_stream()) == cudaSuccess, "aborted work ends");
  });
}

TEST_CASE("NCCL's plugin is loaded and serves all ranks") {
  const PluginFolder folder(AUTOPAR_EMULATED_PLUGINS);
  on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    auto nccl = make_nccl_communicator(host, device.collective_queue(), long_enough);
    expect(!nccl->waits_on_host(), "NCCL's collectives join the stream");
    OnHostMemory world(device, std::move(nccl), host);
    check_conformance(world, Reductions::nccl, Callers::one_thread);
  });
}

TEST_CASE("A plugin or a library that NCCL lacks is told in one line") {
  const auto make = [] {
    make_nccl_communicator(*make_thread_communicators(1, long_enough).front(), nullptr,
                           long_enough);
  };
  {
    const PluginFolder folder("/nowhere");
    CHECK_THROWS_WITH(make(), Contains("/nowhere/libautopar_nccl.so is missing") &&
                                  Contains("--collectives host") && !Contains("\n"));
  }
  const TemporaryFolder place;
  std::ofstream(place / "libautopar_nccl.so") << "not a library";
  const PluginFolder folder(place.path().string());
  CHECK_THROWS_WITH(make(), Contains("'nccl' cannot be loaded") && Contains("--collectives host") &&
                                !Contains("\n"));
}

TEST_CASE("Collectives of several groups go out as one, and are replayed from a graph") {
  on_gpus(4, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    const int rank = host.rank();
    const std::vector<int> row = {rank / 2 * 2, rank / 2 * 2 + 1};
    const std::vector<int> column = {rank % 2, rank % 2 + 2};
    const auto in_row = world->subgroup(row);
    const auto in_column = world->subgroup(column);

    OnDevice<float> sum(device, {0});
    OnDevice<std::int32_t> parts(device, std::vector<std::int32_t>(3));
    const OnDevice<std::int32_t> part(device, std::vector<std::int32_t>(rank < 2 ? 1 : 2, rank));
    const std::vector<std::int64_t> part_bytes = {4, 8};
    OnDevice<std::int32_t> sent(device, {rank * 10, rank * 10 + 1, rank * 10 + 2, rank * 10 + 3});
    OnDevice<std::int32_t> received(device, std::vector<std::int32_t>(4));
    const std::vector<std::int64_t> fours(4, 4);
    const auto communicate = [&] {
      world->begin_group();
      in_row->all_reduce(sum.data(), sum.data(), 1, DataType::float32, ReduceOp::sum);
      in_column->all_gather(part.data(), parts.data(), part_bytes);
      world->all_to_all(sent.data(), fours, received.data(), fours);
      world->end_group();
    };
    const auto check_run = [&](const std::function<void()>& run, float value) {
      sum.set({value + static_cast<float>(rank)});
      parts.set({-1, -1, -1});
      received.set({-1, -1, -1, -1});
      run();
      expect(sum.get()[0] == 2 * value + static_cast<float>(row[0] + row[1]), "the row's sum");
      expect(parts.get() == std::vector{column[0], column[1], column[1]}, "the column's parts");
      expect(received.get() == std::vector{rank, 10 + rank, 20 + rank, 30 + rank}, "all's blocks");
    };
    check_run(communicate, 1);

    cudaStream_t stream = device.collective_stream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    communicate();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "capture");
    const Graph owned(graph);
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    const GraphExec owned_exec(exec);
    for (const float value : {2.F, 3.F, 4.F})
      check_run([&] { check(cudaGraphLaunch(exec, stream), "replay"); }, value);
  });
}

TEST_CASE("Groups of different sizes partition the world; of one rank they need no NCCL") {
  on_gpus(3, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    const auto group =
        world->subgroup(host.rank() == 1 ? std::vector<int>{1} : std::vector<int>{2, 0});
    OnDevice<std::int64_t> value(device, {host.rank() + 1});
    group->all_reduce(value.data(), value.data(), 1, DataType::int64, ReduceOp::sum);
    expect(value.get()[0] == (host.rank() == 1 ? 2 : 4), "the group's sum");
  });
}

TEST_CASE("Groups that overlap are an error on all ranks") {
  const auto errors = errors_on_gpus(3, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    world->subgroup(host.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 2});
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("ranks 0, 1 are a group on rank 0, but ranks 1, 2 on rank 1") ||
                          Contains("another rank failed"));
  CHECK_THAT(errors[0] + errors[1] + errors[2], Contains("must share no rank"));
}

TEST_CASE("NCCL moves every type, and says which it cannot reduce") {
  on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    const auto is_refused = [&](DataType type, ReduceOp op) {
      try {
        world->all_reduce(nullptr, nullptr, 0, type, op);
      } catch (const Error& error) {
        const std::string text = error.what();
        return text.find(name_of(type)) != std::string::npos &&
               text.find("--collectives host") != std::string::npos;
      }
      return false;
    };
    for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::mean}) {
      expect(is_refused(DataType::int16, op), "int16 is refused");
      expect(is_refused(DataType::uint16, op), "uint16 is refused");
      expect(is_refused(DataType::float8e5m2, op), "float8 is refused");
    }
    expect(is_refused(DataType::boolean, ReduceOp::sum), "there is no sum of booleans");
    expect(is_refused(DataType::boolean, ReduceOp::mean), "there is no mean of booleans");

    const bool mine = host.rank() == 0;
    OnDevice<std::uint8_t> either(device, {mine, !mine, 0, 1});
    world->all_reduce(either.data(), either.data(), 4, DataType::boolean, ReduceOp::max);
    expect(either.get() == std::vector<std::uint8_t>{1, 1, 0, 1}, "max is or");
    OnDevice<std::uint8_t> both(device, {mine, !mine, 0, 1});
    world->all_reduce(both.data(), both.data(), 4, DataType::boolean, ReduceOp::min);
    expect(both.get() == std::vector<std::uint8_t>{0, 0, 0, 1}, "min is and");

    OnDevice<std::int16_t> moved(device, {static_cast<std::int16_t>(-5 - host.rank())});
    world->broadcast(moved.data(), 2, 1);
    expect(moved.get()[0] == -6, "int16 is moved");
  });
}

TEST_CASE("A rank that does not come to NCCL ends the others at the timeout") {
  const auto errors = errors_on_gpus(3, [](CudaDevice& device, HostCommunicator& host) {
    if (host.rank() == 2) {
      come_to_nccl(host);
      return;
    }
    nccl_world(device, host, short_time);
  });
  CHECK_THAT(errors[0] + errors[1],
             Contains("NCCL: connecting the GPUs of 3 ranks: not done within 200 ms"));
  CHECK(errors[0] != "");
  CHECK(errors[1] != "");
}

TEST_CASE("A rank that fails before it comes to NCCL ends the others at once") {
  const auto start = Clock::now();
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    if (host.rank() == 1) {
      come_to_nccl(host);
      throw Error("the cause");
    }
    nccl_world(device, host);
  });
  CHECK_THAT(errors[0], Contains("another rank failed"));
  CHECK(Clock::now() - start < long_enough / 2);
}

TEST_CASE("A rank that does not come to a split ends the others at the timeout") {
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host, std::chrono::seconds(2));
    if (host.rank() == 0) {
      world->subgroup(std::vector<int>{1, 0});
      return;
    }
    host.barrier(long_enough);
    gather_lists<int>(host, std::vector<int>{1, 0});
    while (true) host.check_members();
  });
  CHECK_THAT(errors[0],
             Contains("rank 0: NCCL: making a group's communicator: not done within 2000 ms"));
}

TEST_CASE("A rank that hangs in a collective is found by the time, and an abort ends all ranks") {
  const NcclFaults faults;
  emulation::tell_peers_of_aborts(GENERATE(true, false));
  emulation::hang_at(1, 0);
  const auto errors = errors_on_gpus(3, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    OnDevice<float> value(device, {1});
    world->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
    try {
      wait_for_stream(device, *world, host.rank() == 0 ? short_time : long_enough);
    } catch (...) {
      world->abort();
      throw;
    }
  });
  CHECK(errors[0] == "late");
  for (const std::size_t r : {1, 2})
    CHECK_THAT(errors[r], Contains("another rank failed") || Contains("rank 0 has aborted"));
}

TEST_CASE("What fails while NCCL works is told with NCCL's reason") {
  const NcclFaults faults;
  emulation::fail_at(1, 0);
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    OnDevice<float> value(device, {1});
    world->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
    try {
      wait_for_stream(device, *world, long_enough);
    } catch (...) {
      world->abort();
      throw;
    }
  });
  CHECK_THAT(errors[1], Contains("rank 1: NCCL: ") && Contains("remote process exited") &&
                            Contains("the test has this communicator fail"));
  CHECK(errors[0] != "");
}

TEST_CASE("A rank that hears of another one's end from NCCL first tells whose it was") {
  constexpr int all_are_connected = 4;
  constexpr int rank_3_has_aborted = 5;
  constexpr int rank_1_has_told = 6;
  std::atomic<int> steps = 0;
  const auto errors = errors_of(rendezvous_of(4), [&](HostCommunicator& host) {
    CudaDevice device({.gpu = host.rank()});
    LateHost late_host(host);
    const auto world = nccl_world(device, late_host);
    OnDevice<float> value(device, {1});
    host.barrier();
    ++steps;
    wait_for_steps(steps, host.rank() == 3   ? all_are_connected
                          : host.rank() == 1 ? rank_3_has_aborted
                                             : rank_1_has_told);
    if (host.rank() == 3) {
      world->abort();
      ++steps;
      wait_for_steps(steps, rank_1_has_told);
      throw Error("the cause");
    }
    try {
      while (host.rank() == 1)
        world->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
      host.check_members();  // of all that has come, rank 1's word is before rank 3's
    } catch (const Error&) {
      world->abort();
      if (host.rank() == 1) ++steps;
      throw;
    }
  });
  for (const std::size_t r : {0, 1, 2})
    CHECK(errors[r] ==
          "rank " + std::to_string(r) + ": the run was given up: another rank failed (rank 3)");
  CHECK(errors[3] == "the cause");
}

TEST_CASE("Another thread may abort: what waits goes on, and later calls are given up") {
  const NcclFaults faults;
  emulation::hang_at(0, 0);
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    const auto group = world->subgroup(std::vector<int>{1, 0});
    OnDevice<float> value(device, {1});
    group->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
    host.barrier();
    const std::jthread other([&] {
      std::this_thread::sleep_for(short_time);
      world->abort();
    });
    expect(cudaStreamSynchronize(device.collective_stream()) == cudaSuccess, "aborted work ends");
    group->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Contains("NCCL: all-reduce: "));
}

TEST_CASE("An abort is told over the host, where NCCL tells nobody") {
  const NcclFaults faults;
  emulation::tell_peers_of_aborts(false);
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    if (host.rank() == 1) return world->abort();
    for (const auto end = Clock::now() + long_enough; Clock::now() < end;) world->check_members();
  });
  CHECK_THAT(errors[0], Contains("another rank failed"));
}

TEST_CASE("An error within a group of collectives leaves nothing behind") {
  const auto errors = errors_on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    OnDevice<float> value(device, {1});
    host.barrier();
    world->begin_group();
    world->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
    world->all_reduce(value.data(), value.data(), 0, DataType::int16, ReduceOp::sum);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Contains("int16"));
  on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    OnHostMemory world(device, nccl_world(device, host), host);
    check_conformance(world, Reductions::nccl, Callers::one_thread);
  });
}

TEST_CASE("Two ranks on one GPU are told what to do, in whatever words NCCL refuses them") {
  const NcclFaults faults;
  emulation::tell_of_duplicates(
      GENERATE(emulation::DuplicateWords::up_to_2_29, emulation::DuplicateWords::since_2_30));
  const auto errors = errors_on_gpus(
      3, [](CudaDevice& device, HostCommunicator& host) { nccl_world(device, host); },
      [](int rank) { return rank == 1 ? 1 : 0; });
  CHECK_THAT(errors[0] + errors[1] + errors[2],
             Contains("NCCL: connecting the GPUs of 3 ranks: ") &&
                 Contains("ranks 0 and 2 have the same GPU; start one rank for each GPU, or use "
                          "--collectives host"));
  for (const std::string& error : errors) {
    CHECK(error != "");
    CHECK_THAT(error, !Contains("\n"));
  }
}

TEST_CASE("A shard runs with NCCL, replayed from its second run on, or staged through the host") {
  const bool is_staged = GENERATE(false, true);
  on_gpus(4, [&](CudaDevice& device, HostCommunicator& host) {
    const auto world =
        is_staged ? make_staged_communicator(device, host) : nccl_world(device, host);
    CollectiveContext collectives(*world, host, long_enough);
    const int rank = host.rank();
    Executable executable(two_collectives(rank), {.collectives = &collectives, .device = &device});
    for (const int run : {1, 2, 3}) {
      executable.write_input(0, filled({2, 3}, static_cast<float>(10 * run + rank)));
      executable.run();
      const auto sum = static_cast<float>(20 * run + rank / 2 * 4 + 1);
      expect(std::ranges::equal(executable.read_output(0).bytes(), filled({2, 3}, sum).bytes()),
             "the row's sum");
      const graph::Tensor all = executable.read_output(1);
      const auto* values = reinterpret_cast<const float*>(all.data());
      for (int i = 0; i < 12; ++i)
        expect(values[i] == static_cast<float>(10 * run + rank % 2 + i % 6 / 3 * 2), "the column");
    }
  });
}

TEST_CASE("A rank that hangs in a run is named by those that notice it, and all ranks end") {
  const NcclFaults faults;
  emulation::hang_at(1, GENERATE(0, 3));
  const auto errors = errors_on_gpus(4, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    CollectiveContext collectives(*world, host, 5 * short_time);
    Executable executable(two_collectives(host.rank()),
                          {.collectives = &collectives, .device = &device});
    for (int run = 0; run < 3; ++run) {
      executable.write_input(0, filled({2, 3}, 1));
      executable.run();
    }
  });
  std::string all;
  for (const std::string& error : errors) {
    CHECK(error != "");
    all += error + "; ";
  }
  CHECK_THAT(all, Contains("did not finish within 1 s"));
}

TEST_CASE("A rank whose NCCL fails while a graph has its collectives ends with that reason") {
  const NcclFaults faults;
  emulation::fail_at(1, GENERATE(4, 5));  // of the run that is the graph's first
  const auto errors = errors_on_gpus(4, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    CollectiveContext collectives(*world, host, long_enough);
    Executable executable(two_collectives(host.rank()),
                          {.collectives = &collectives, .device = &device});
    Executable other(two_collectives(host.rank()),
                     {.collectives = &collectives, .device = &device});
    for (int run = 0; run < 3; ++run) {
      for (Executable* each : {&other, &executable}) {
        each->write_input(0, filled({2, 3}, 1));
        each->run();
      }
    }
  });
  CHECK_THAT(errors[1], Contains("the test has this communicator fail"));
  for (const std::string& error : errors) CHECK(error != "");
}

TEST_CASE("Who aborts waits for no graph") {
  on_gpus(2, [](CudaDevice& device, HostCommunicator& host) {
    const auto world = nccl_world(device, host);
    OnDevice<float> value(device, {1});
    const cudaStream_t stream = device.collective_stream();
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    world->all_reduce(value.data(), value.data(), 1, DataType::float32, ReduceOp::sum);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaStreamEndCapture(stream, &graph);
    const Graph owned(graph);
    expect(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess, "a graph");
    const GraphExec executable(exec);
    host.barrier();
    world->abort();
    expect(cudaGraphLaunch(exec, stream) == cudaSuccess, "a graph of aborted work is launched");
    expect(cudaStreamSynchronize(stream) == cudaSuccess, "and ends");
  });
}

}  // namespace autopar::runtime::cuda
