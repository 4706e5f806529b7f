#include "planner/calibration.h"

#include <fmt/chrono.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <vector>

#include "base/error.h"
#include "cost/device_file.h"
#include "cost/experiments.h"
#include "cost/fit.h"
#include "planner/load_model.h"
#include "planner/summary.h"
#include "runtime/calibration/rank_stopwatch.h"
#include "runtime/comm/ranks.h"
#include "runtime/gather.h"

namespace autopar::planner {

namespace {

/// "name, 2026-11-21".
std::string here_and_now() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("{}, {:%Y-%m-%d}", host.data(), fmt::gmtime(std::time(nullptr)));
}

struct Measured {
  cost::Measurements measurements;
  std::int64_t memory_bytes = 0;
  bool is_cpu = true;
};

std::string_view name_of(runtime::DeviceOptions::Kind kind) {
  using Kind = runtime::DeviceOptions::Kind;
  if (kind == Kind::automatic) return "auto";
  return kind == Kind::cpu ? "cpu" : "cuda";
}

sharding::DeviceMesh mesh_of(const CalibrationOptions& options, int ranks) {
  return options.mesh.empty() ? sharding::DeviceMesh({ranks})
                              : sharding::DeviceMesh::parse(options.mesh);
}

/// The ranks that the options ask for; 2 where they ask for none.
int wanted_ranks(const CalibrationOptions& options) {
  if (options.ranks < 0) fail("--ranks {}: give at least 1", options.ranks);
  if (!options.mesh.empty()) {
    const int devices = sharding::DeviceMesh::parse(options.mesh).num_devices();
    if (options.ranks > 0 && options.ranks != devices) {
      fail("--mesh {} has {} devices but --ranks is {}; make them equal", options.mesh, devices,
           options.ranks);
    }
    return devices;
  }
  if (options.ranks == 0 && options.launch.rank)
    fail("--rank {}: give --ranks or --mesh too, the same to all", *options.launch.rank);
  return options.ranks > 0 ? options.ranks : 2;
}

/// Ranks that differ in what decides on what is measured, in which order, would wait for one
/// another, or take each other's messages.
void require_same_of_all(runtime::HostCommunicator& world, const sharding::DeviceMesh& mesh,
                         const CalibrationOptions& options) {
  const runtime::DeviceOptions& device = options.device;
  const nlohmann::json mine{to_string(mesh), options.quick, device.kind, device.host_collectives};
  const std::vector<nlohmann::json> all = runtime::gather_json(mine, world);
  if (std::ranges::count(all, mine) == world.size()) return;
  try {
    world.barrier();        // each rank is to know why, before the first one fails
  } catch (const Error&) {  // a rank that was here has failed for the same reason
  }
  fail(
      "rank {} was started to measure {}{} on '{}', and another rank something else: give all "
      "ranks the same --mesh, --quick, --device and --collectives",
      world.rank(), to_string(mesh), options.quick ? " quickly" : "", name_of(device.kind));
}

Measured measure(const sharding::DeviceMesh& mesh, const CalibrationOptions& options,
                 runtime::HostCommunicator& host, const runtime::LocalRanks& local) {
  runtime::RankStopwatch stopwatch(options.device, host, local, options.launch.timeout);
  const auto extent = options.quick ? cost::Extent::quick : cost::Extent::full;
  const runtime::TimingOptions timing =
      options.quick ? runtime::TimingOptions{.seconds = 0.005, .least_runs = 3, .most_runs = 20}
                    : runtime::TimingOptions{.seconds = 0.25, .least_runs = 7};
  Measured measured{.measurements = {.mesh_axes = mesh.num_axes()},
                    .memory_bytes = stopwatch.memory_bytes(),
                    .is_cpu = stopwatch.is_cpu()};
  /// Seconds of one of a graph's equal nodes; nullopt where a device has no kernel.
  const auto seconds_of = [&](const graph::Graph& graph) -> std::optional<double> {
    const auto seconds = stopwatch.time(graph, timing);
    if (!seconds) return std::nullopt;
    return *seconds / static_cast<double>(graph.nodes.size());
  };
  for (const cost::ExperimentMaker& make : cost::operator_experiments(extent)) {
    const cost::OperatorExperiment each = make();
    if (const auto seconds = seconds_of(each.graph))
      measured.measurements.operators.push_back({each.op_type, each.type, each.work, *seconds});
  }
  for (const auto& each : cost::collective_experiments(extent, mesh, host.rank())) {
    if (const auto seconds = seconds_of(each.graph)) {
      measured.measurements.collectives.push_back(
          {each.kind, each.mesh_axis, mesh.axis_size(each.mesh_axis), each.bytes, *seconds});
    }
  }
  return measured;
}

cost::DeviceModel fit(const Measured& measured, const sharding::DeviceMesh& mesh,
                      const CalibrationOptions& options) {
  cost::DeviceModel fitted = cost::fit_device(measured.measurements);
  fitted.name = options.name;
  fitted.source =
      fmt::format("autopar calibrate on {}: mesh {} on {}{}", here_and_now(), to_string(mesh),
                  measured.is_cpu ? "the CPU" : "GPUs", options.quick ? ", quick and rough" : "");
  fitted.memory_bytes = measured.memory_bytes;
  fitted.is_fusing = true;
  fitted.runs_on = measured.is_cpu ? "cpu" : "cuda";
  return fitted;
}

std::string text_of(const cost::DeviceModel& fitted, const std::vector<cost::FitQuality>& quality) {
  std::string text = fmt::format("a launch takes {}, memory moves {:.1f} GB/s\n",
                                 in_seconds(fitted.launch_seconds),
                                 fitted.memory_bytes_per_second.points().back().rate / 1e9);
  for (const auto& [type, rate] : fitted.flops_per_second) {
    text +=
        fmt::format("products of {}: {:.1f} GFLOP/s\n", graph::name_of(type), rate.highest() / 1e9);
  }
  for (std::size_t axis = 0; axis < fitted.links.size(); ++axis) {
    text += fmt::format("mesh axis {}: {} a step, {:.1f} GB/s\n", axis,
                        in_seconds(fitted.links[axis].latency_seconds),
                        fitted.links[axis].bytes_per_second / 1e9);
  }
  text += fmt::format("{:<34}{:>9}{:>16}{:>15}\n", "how predictions fit", "samples", "median error",
                      "worst error");
  for (const cost::FitQuality& each : quality) {
    text += fmt::format("{:<34}{:>9}{:>14.1f} %{:>13.1f} %\n", each.what, each.samples,
                        100 * each.median_error, 100 * each.worst_error);
  }
  return text;
}

}  // namespace

std::optional<std::string> calibrate(const CalibrationOptions& options) {
  const int wanted = wanted_ranks(options);
  const bool are_given = options.ranks > 0 || !options.mesh.empty();
  runtime::Ranks started = runtime::launch_ranks(
      options.launch, {.count = wanted,
                       .is_given = are_given,
                       .what = fmt::format("--mesh {}", to_string(mesh_of(options, wanted))),
                       .digest = [] { return "calibrate"; }});
  const int number = are_given ? wanted : started.world_size();
  const sharding::DeviceMesh mesh = mesh_of(options, number);
  started.run_as_rank([&](runtime::HostCommunicator& world, const runtime::LocalRanks&) {
    require_same_of_all(world, mesh, options);
  });
  if (started.world_size() != number) {
    fail("--mesh {} has {} ranks, but {} processes were started; start {}", to_string(mesh), number,
         started.world_size(), number);
  }
  if (started.has_first()) cost::check_device_file(options.out, options.force);
  Measured measured;
  {
    const Shown shown(options.progress, fmt::format("measuring {} rank(s)", number));
    started.run_as_rank([&](runtime::HostCommunicator& host, const runtime::LocalRanks& local) {
      const Measured here = measure(mesh, options, host, local);
      if (host.rank() == 0) measured = here;
    });
  }
  if (!started.has_first()) return std::nullopt;
  const cost::DeviceModel fitted = fit(measured, mesh, options);
  if (options.force)
    cost::save_device_file(options.out, fitted);
  else
    cost::save_new_device_file(options.out, fitted);
  if (measured.measurements.collectives.empty()) {
    spdlog::warn(
        "no link was measured: give --ranks 2 or more before planning for several devices");
  }
  return text_of(fitted, cost::fit_quality(fitted, measured.measurements));
}

}  // namespace autopar::planner
