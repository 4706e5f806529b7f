#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "cost/device_file.h"
#include "cost/experiments.h"
#include "cost/fit.h"
#include "device_choice.h"
#include "launch.h"
#include "planner/summary.h"
#include "progress.h"
#include "runtime/calibration/rank_stopwatch.h"
#include "runtime/comm/ranks.h"

namespace autopar {

using planner::in_seconds;

namespace {

/// "name, 2026-11-21".
std::string here_and_now() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::array<char, 16> date{};
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d", gmtime_r(&now, &broken));
  return fmt::format("{}, {}", host.data(), date.data());
}

struct CalibrateCommand {
  std::filesystem::path out;
  bool force = false;
  bool is_quick = false;
  std::string name = "calibrated";
  int ranks = 0;  ///< 0: as --mesh says, or as many as were started, or 2 threads
  std::string mesh;
  DeviceChoice device;
  LaunchChoice launching;

  void run() {
    if (ranks < 0) fail("--ranks {}: give at least 1", ranks);
    const runtime::DeviceOptions on = device.checked();
    const int wanted = wanted_ranks();
    const runtime::LaunchOptions launch = launching.checked();
    runtime::Ranks started =
        runtime::launch_ranks(launch, {.count = wanted,
                                       .what = fmt::format("--mesh {}", to_string(mesh_of(wanted))),
                                       .digest = [] { return "calibrate"; }});
    const int number = asks_for_ranks() ? wanted : started.world_size();
    const sharding::DeviceMesh ranks_mesh = mesh_of(number);
    started.run_as_rank([&](runtime::HostCommunicator& world, const runtime::LocalRanks&) {
      require_same_of_all(world, ranks_mesh, on);
    });
    if (started.world_size() != number) {
      fail("--mesh {} has {} ranks, but {} processes were started; start {}", to_string(ranks_mesh),
           number, started.world_size(), number);
    }
    if (started.has_first()) cost::check_device_file(out, force);
    Result result;
    {
      const Progress progress(fmt::format("measuring {} rank(s)", number));
      started.run_as_rank([&](runtime::HostCommunicator& host, const runtime::LocalRanks& local) {
        const Result measured = measure(ranks_mesh, on, host, local, launch.timeout);
        if (host.rank() == 0) result = measured;
      });
    }
    if (started.has_first()) conclude(result, ranks_mesh);
  }

 private:
  struct Result {
    cost::Measurements measurements;
    std::int64_t memory_bytes = 0;
    bool is_cpu = true;
  };

  bool asks_for_ranks() const { return ranks > 0 || !mesh.empty(); }

  /// Of all that decides on what is measured, in which order: ranks that differ in it would wait
  /// for one another, or take each other's messages.
  void require_same_of_all(runtime::HostCommunicator& world, const sharding::DeviceMesh& ranks_mesh,
                           const runtime::DeviceOptions& on) const {
    const std::string all = fmt::format("{} {} {} {}", to_string(ranks_mesh), is_quick,
                                        static_cast<int>(on.kind), on.host_collectives);
    std::uint32_t hash = 2166136261U;  // FNV-1a: the same on every machine
    for (const char letter : all) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
    std::vector<std::uint32_t> hashes(static_cast<std::size_t>(world.size()));
    const std::vector<std::int64_t> blocks(hashes.size(), sizeof hash);
    world.all_gather(reinterpret_cast<const std::byte*>(&hash),
                     reinterpret_cast<std::byte*>(hashes.data()), blocks);
    if (std::ranges::count(hashes, hash) != world.size()) {
      try {
        world.barrier();        // each rank is to know why, before the first one fails
      } catch (const Error&) {  // somebody was here, and has failed for the same reason
      }
      fail(
          "rank {} was started to measure {}{} on '{}', and another rank something else: give all "
          "ranks the same --mesh, --quick, --device and --collectives",
          world.rank(), to_string(ranks_mesh), is_quick ? " quickly" : "", device.device);
    }
  }

  /// As far as the options tell.
  int wanted_ranks() const {
    if (!mesh.empty()) {
      const int devices = sharding::DeviceMesh::parse(mesh).num_devices();
      if (ranks > 0 && ranks != devices) {
        fail("--mesh {} has {} devices but --ranks is {}; make them equal", mesh, devices, ranks);
      }
      return devices;
    }
    if (ranks == 0 && launching.rank) {
      fail("--rank {}: give --ranks or --mesh too, the same to all", *launching.rank);
    }
    return ranks > 0 ? ranks : 2;
  }

  sharding::DeviceMesh mesh_of(int number) const {
    return mesh.empty() ? sharding::DeviceMesh({number}) : sharding::DeviceMesh::parse(mesh);
  }

  Result measure(const sharding::DeviceMesh& ranks_mesh, const runtime::DeviceOptions& on,
                 runtime::HostCommunicator& host, const runtime::LocalRanks& local,
                 std::chrono::milliseconds timeout) const {
    runtime::RankStopwatch stopwatch(on, host, local, timeout);
    const auto extent = is_quick ? cost::Extent::quick : cost::Extent::full;
    const runtime::TimingOptions timing =
        is_quick ? runtime::TimingOptions{.seconds = 0.005, .least_runs = 3, .most_runs = 20}
                 : runtime::TimingOptions{.seconds = 0.25, .least_runs = 7};
    Result result{.measurements = {.mesh_axes = ranks_mesh.num_axes()},
                  .memory_bytes = stopwatch.memory_bytes(),
                  .is_cpu = stopwatch.is_cpu()};
    for (const cost::ExperimentMaker& make : cost::operator_experiments(extent)) {
      const cost::OperatorExperiment each = make();
      if (const auto seconds = stopwatch.time(each.graph, timing)) {
        const auto nodes = static_cast<double>(each.graph.nodes.size());
        result.measurements.operators.push_back(
            {each.op_type, each.type, each.work, *seconds / nodes});
      }
    }
    for (const auto& each : cost::collective_experiments(extent, ranks_mesh, host.rank())) {
      if (const auto seconds = stopwatch.time(each.graph, timing)) {
        const auto nodes = static_cast<double>(each.graph.nodes.size());
        result.measurements.collectives.push_back({each.kind, each.mesh_axis,
                                                   ranks_mesh.axis_size(each.mesh_axis), each.bytes,
                                                   *seconds / nodes});
      }
    }
    return result;
  }

  void conclude(const Result& result, const sharding::DeviceMesh& ranks_mesh) const {
    cost::DeviceModel fitted = cost::fit_device(result.measurements);
    fitted.name = name;
    fitted.source = fmt::format("autopar calibrate on {}: mesh {} on {}{}", here_and_now(),
                                to_string(ranks_mesh), result.is_cpu ? "the CPU" : "GPUs",
                                is_quick ? ", quick and rough" : "");
    fitted.memory_bytes = result.memory_bytes;
    fitted.is_fusing = true;
    fitted.runs_on = result.is_cpu ? "cpu" : "cuda";
    cost::save_device_file(out, fitted);
    if (result.measurements.collectives.empty()) {
      spdlog::warn(
          "no link was measured: give --ranks 2 or more before planning for several "
          "devices");
    }
    report(fitted, cost::fit_quality(fitted, result.measurements));
    fmt::print("{}\n", out.string());
  }

  static void report(const cost::DeviceModel& fitted,
                     const std::vector<cost::FitQuality>& quality) {
    fmt::print(stderr, "a launch takes {}, memory moves {:.1f} GB/s\n",
               in_seconds(fitted.launch_seconds),
               fitted.memory_bytes_per_second.points().back().rate / 1e9);
    for (const auto& [type, rate] : fitted.flops_per_second) {
      fmt::print(stderr, "products of {}: {:.1f} GFLOP/s\n", name_of(type), rate.highest() / 1e9);
    }
    for (std::size_t axis = 0; axis < fitted.links.size(); ++axis) {
      fmt::print(stderr, "mesh axis {}: {} a step, {:.1f} GB/s\n", axis,
                 in_seconds(fitted.links[axis].latency_seconds),
                 fitted.links[axis].bytes_per_second / 1e9);
    }
    fmt::print(stderr, "{:<34}{:>9}{:>16}{:>15}\n", "how predictions fit", "samples",
               "median error", "worst error");
    for (const cost::FitQuality& each : quality) {
      fmt::print(stderr, "{:<34}{:>9}{:>14.1f} %{:>13.1f} %\n", each.what, each.samples,
                 100 * each.median_error, 100 * each.worst_error);
    }
  }
};

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto command = std::make_shared<CalibrateCommand>();
  CLI::App* sub = app.add_subcommand(
      "calibrate",
      "Measure this machine and write a device file: once, before plan and partition use it");
  sub->add_option("--out", command->out, "The device file to write")->required();
  sub->add_flag("--force", command->force, "Replace an existing file");
  sub->add_option("--ranks", command->ranks,
                  "Ranks that work at once (default: those that were started, else 2 threads)");
  sub->add_option("--mesh", command->mesh, "The ranks as a mesh, e.g. 2x4: a link for each axis");
  sub->add_option("--name", command->name, "What the file calls the device")->capture_default_str();
  sub->add_flag("--quick", command->is_quick, "Seconds instead of a minute or two, and rough");
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
