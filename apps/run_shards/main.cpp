// Runs ranks' ONNX files without a bundle: a check of what ranks tell each other writes a file a
// rank with the collectives and messages that it is about, and compares what they give. Files for
// other runtimes run, too, their collectives being autopar's then.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/runtimes/autopar_collectives.h"
#include "runtime/collectives.h"
#include "runtime/comm/nccl_launch.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/comm/tcp_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/devices/cuda_device.h"
#include "runtime/executable.h"
#include "runtime/tensor_files.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<fs::path> folders;
  int rank = 0;
  int ranks = 1;
  int port = 0;
  int stages = 1;
  int repeat = 1;
  int gpu = 0;
  std::string device = "cpu";
  std::string collectives = "nccl";
  double timeout_seconds = 30;

  std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  }

  void add_to(CLI::App& app) {
    app.add_option(
           "folders", folders,
           "Each has rankR.onnx, and rankR.INPUT.npy or .pb for its inputs; rankR.OUTPUT.npy "
           "is written into its first/ and last/, of the first run and the last")
        ->required();
    app.add_option("--rank", rank, "Which one this process is")->capture_default_str();
    app.add_option("--ranks", ranks, "How many there are")->capture_default_str();
    app.add_option("--port", port, "Where several ranks of this machine meet");
    app.add_option("--stages", stages, "Stages of as many ranks each, for Send and Recv")
        ->capture_default_str();
    app.add_option("--repeat", repeat, "Runs; on GPUs the first goes step by step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--gpu", gpu, "Of this rank")->capture_default_str();
    app.add_option("--device", device, "What to run on")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--collectives", collectives, "Of GPUs; NCCL is called by a lone rank, too")
        ->check(CLI::IsMember({"nccl", "host"}))
        ->capture_default_str();
    app.add_option("--timeout", timeout_seconds, "Seconds to wait for other ranks")
        ->capture_default_str();
  }
};

std::unique_ptr<runtime::HostCommunicator> make_host(const Options& options) {
  if (options.ranks == 1)
    return std::move(runtime::make_thread_communicators(1, options.timeout()).front());
  if (options.port <= 0) fail("--port is missing: {} ranks meet at one", options.ranks);
  const char* const secret = std::getenv("AUTOPAR_SECRET");
  if (secret == nullptr)
    fail("AUTOPAR_SECRET is missing: {} ranks prove to each other that they know it",
         options.ranks);
  return runtime::make_tcp_communicator(
      {.rank = options.rank,
       .size = options.ranks,
       .meeting_point = {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(options.port)},
       .bundle_digest = "run_shards",
       .secret = secret,
       .timeout = options.timeout(),
       .run_timeout = options.timeout()});
}

/// What this rank runs on, and what it reaches the others by.
class Place {
 public:
  explicit Place(const Options& options) : host_(make_host(options)) {
    if (options.device == "cpu")
      device_ = std::make_unique<runtime::CpuDevice>(1);
    else
      device_ = runtime::make_cuda_device({.gpu = options.gpu});
    const bool by_nccl = options.device != "cpu" && options.collectives == "nccl";
    world_ = by_nccl ? runtime::make_nccl_communicator(*host_, device_->collective_queue(),
                                                       options.timeout())
                     : runtime::make_staged_communicator(*device_, *host_);
  }

  runtime::HostCommunicator& host() { return *host_; }
  runtime::DeviceCommunicator& world() { return *world_; }
  runtime::Device& device() { return *device_; }

 private:
  std::unique_ptr<runtime::HostCommunicator> host_;
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::DeviceCommunicator> world_;
};

std::vector<std::vector<int>> stages_of(const Options& options) {
  if (options.stages < 1 || options.ranks % options.stages != 0)
    fail("--stages {}: {} ranks cannot be cut so", options.stages, options.ranks);
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(options.stages));
  for (int rank = 0; rank < options.ranks; ++rank)
    stages[static_cast<std::size_t>(rank * options.stages / options.ranks)].push_back(rank);
  return stages;
}

fs::path tensor_file(const fs::path& folder, int rank, const std::string& name) {
  return folder / fmt::format("rank{}.{}.npy", rank, runtime::safe_file_name(name));
}

graph::Tensor load_input(const fs::path& folder, int rank, const std::string& name) {
  fs::path file = tensor_file(folder, rank, name);
  if (!fs::exists(file)) file.replace_extension(".pb");
  return runtime::load_tensor_file(file);
}

void run_folder(const fs::path& folder, const Options& options, Place& place,
                runtime::CollectiveContext& collectives) {
  const graph::Graph graph = graph::load_runtime_shard(
      folder / fmt::format("rank{}.onnx", options.rank), options.rank, options.ranks);
  runtime::Executable executable(graph, {.collectives = &collectives, .device = &place.device()});
  for (int run = 0; run < options.repeat; ++run) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      executable.write_input(i,
                             load_input(folder, options.rank, graph.value(graph.inputs[i]).name));
    place.host().barrier();
    executable.run();
    for (const auto& [turn, name] : {std::pair(0, "first"), {options.repeat - 1, "last"}}) {
      if (run != turn) continue;
      fs::create_directories(folder / name);
      for (std::size_t i = 0; i < graph.outputs.size(); ++i)
        runtime::save_npy(
            tensor_file(folder / name, options.rank, graph.value(graph.outputs[i]).name),
            executable.read_output(i));
    }
  }
  place.host().barrier();
}

void run(const Options& options) {
  Place place(options);
  runtime::CollectiveContext collectives(place.world(), place.host(), options.timeout());
  collectives.enter_stage(stages_of(options), &place.device());
  for (const fs::path& folder : options.folders) {
    try {
      run_folder(folder, options, place, collectives);
    } catch (const Error& error) {
      fail("{}: {}", folder.string(), error.what());
    }
  }
}

}  // namespace
}  // namespace autopar

int main(int argc, char** argv) {
  CLI::App app{"Run ranks' ONNX files, collectives and messages included, without a bundle",
               "run_shards"};
  autopar::Options options;
  options.add_to(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& usage) {
    return app.exit(usage) == 0 ? 0 : 2;
  }
  spdlog::set_level(spdlog::level::err);
  try {
    autopar::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
