#include "runtime/calibration/rank_stopwatch.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/stopwatch.h"
#include "runtime/executable.h"
#include "runtime/gather.h"

namespace autopar::runtime {
namespace {

/// 0.5 everywhere, 1 of integers: nothing overflows, and no index leaves its tensor.
graph::Tensor filled(DataType type, const Shape& shape) {
  graph::Tensor tensor = graph::Tensor::zeros(type, shape);
  if (type == DataType::float32) {
    auto* const values = reinterpret_cast<float*>(tensor.mutable_bytes().data());
    std::fill_n(values, tensor.elements(), 0.5F);
  }
  return tensor;
}

/// What is free; the device has no other way to tell.
std::int64_t largest_allocation(Device& device) {
  std::int64_t had = 1 << 20;
  std::int64_t too_much = std::int64_t{1} << 40;
  while (too_much - had > 64 << 20) {
    const std::int64_t middle = had + (too_much - had) / 2;
    try {
      device.allocate(middle);
      had = middle;
    } catch (const Error&) {
      too_much = middle;
    }
  }
  return had;
}

}  // namespace

RankStopwatch::RankStopwatch(const DeviceOptions& options, HostCommunicator& host,
                             const LocalRanks& local, std::chrono::milliseconds timeout)
    : host_(host),
      local_(local),
      device_(options, host, local, timeout),
      collectives_(device_.world(), host, timeout) {}

std::optional<double> RankStopwatch::time(const graph::Graph& graph, const TimingOptions& options) {
  std::unique_ptr<Executable> executable;
  try {
    executable = std::make_unique<Executable>(
        graph, CompileOptions{
                   .collectives = &collectives_, .optimize = false, .device = &device_.device()});
  } catch (const GivenUp&) {
    throw;
  } catch (const Error&) {  // no kernel for the operator in this type
  }
  if (!collectives_.all_agree(executable != nullptr)) return std::nullopt;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    executable->write_input(i, filled(value.type, value.shape));
  }
  const auto run_once = [&] {
    host_.barrier();
    const Stopwatch watch;
    executable->run();
    return watch.seconds();
  };
  run_once();  // which sets libraries up
  std::vector<double> seconds{run_once()};
  take_slowest(seconds, host_);
  const double runs = options.seconds / std::max(seconds.front(), 1e-9);
  const auto count = static_cast<std::size_t>(std::clamp(
      runs, static_cast<double>(options.least_runs), static_cast<double>(options.most_runs)));
  seconds.clear();
  while (seconds.size() < count) seconds.push_back(run_once());
  take_slowest(seconds, host_);
  // Other work of the machine makes times longer, never shorter: the first quintile is taken.
  const auto fifth = seconds.begin() + std::ssize(seconds) / 5;
  std::ranges::nth_element(seconds, fifth);
  return *fifth;
}

std::int64_t RankStopwatch::memory_bytes() {
  const std::int64_t own =
      is_cpu() ? std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / local_.count
               : largest_allocation(device_.device());
  return std::ranges::min(gather_all(host_, own));
}

}  // namespace autopar::runtime
