// Each number is fitted by itself, in an order in which only numbers already known are needed:
// a launch is the time of the smallest operators; the rest of the others' times is traffic,
// arithmetic by the operations of a product, or a time for each element.

#include "cost/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "cost/experiments.h"

namespace autopar::cost {
namespace {

/// No link or memory is faster; a measurement above is too fast to be told from nothing.
constexpr double fastest = 1e15;
/// The part of a sample's time that a launch may take, so that the rest tells a bandwidth.
constexpr double most_launch = 0.9;
/// The least part of a product's time that is arithmetic: noise may leave less, even less than 0.
constexpr double least_arithmetic = 0.05;
/// The size by which links are compared.
constexpr double bytes_of_a_round = 1 << 20;
/// Operators up to this size tell the time of a launch.
constexpr double small_bytes = 1 << 14;
/// Traffic of this size stays in a cache, so that times by element are of arithmetic.
constexpr double cached_bytes = 1 << 19;

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

double rate_of(double slope) { return slope > 1 / fastest ? 1 / slope : fastest; }

/// Rates by size; the geometric mean of several measurements at one size.
using Rates = std::map<double, std::vector<double>>;

/// Leaves out samples in which noise leaves no time.
void add_rate(Rates& rates, double size, double amount, double seconds) {
  const double rate = amount / seconds;
  if (size > 0 && rate > 0 && std::isfinite(rate)) rates[size].push_back(std::min(rate, fastest));
}

/// Products of many shapes, those of about one size together: their shapes matter, too.
Rates in_steps(const Rates& rates) {
  constexpr double step = 4;
  std::map<double, std::pair<double, std::vector<double>>> bins;  // logarithms of sizes, and rates
  for (const auto& [size, measured] : rates) {
    auto& [logarithms, of_bin] = bins[std::floor(std::log(size) / std::log(step))];
    for (const double rate : measured) {
      logarithms += std::log(size);
      of_bin.push_back(rate);
    }
  }
  Rates stepped;
  for (auto& [unused, bin] : bins) {
    const double size = std::exp(bin.first / static_cast<double>(bin.second.size()));
    stepped.emplace(size, std::move(bin.second));
  }
  return stepped;
}

/// Rates by which more never takes less time: where noise has it otherwise, it takes as long.
SizedRate slowing_rate(const Rates& rates) {
  std::vector<SizedRate::Point> points;
  double longest = 0;
  for (const auto& [size, measured] : rates) {
    double logarithm = 0;
    for (const double rate : measured) logarithm += std::log(rate);
    const double mean = std::exp(logarithm / static_cast<double>(measured.size()));
    const double before = longest;
    longest = std::max(longest, size / mean);
    double rate = size / longest;
    while (size / rate < before) rate = std::nextafter(rate, 0.0);
    longest = size / rate;
    points.push_back({size, rate});
  }
  return SizedRate(std::move(points));
}

double fit_launch(std::span<const OperatorSample> samples) {
  std::vector<std::pair<double, double>> small;
  for (const OperatorSample& sample : samples) {
    if (sample.op_type == memory_operator && sample.work.bytes <= small_bytes)
      small.emplace_back(sample.work.bytes, sample.seconds);
  }
  if (small.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(small, {}, &std::pair<double, double>::first);
  if (least.first < most.first) return fit_line(small).intercept;
  std::vector<double> seconds;
  for (const auto& [bytes, of_sample] : small) seconds.push_back(of_sample);
  return median(std::move(seconds));
}

SizedRate fit_memory(std::span<const OperatorSample> samples, double launch) {
  Rates rates;
  for (const OperatorSample& sample : samples) {
    const double seconds = sample.seconds - launch;
    if (sample.op_type == memory_operator && seconds > sample.seconds * (1 - most_launch))
      add_rate(rates, sample.work.bytes, sample.work.bytes, seconds);
  }
  if (rates.empty()) fail("no time of memory's traffic could be measured; try again");
  return slowing_rate(rates);
}

/// A row times weights waits for these alone.
bool reads_weights(const OperatorSample& sample) {
  return sample.work.operations > 0 && sample.work.operations <= sample.work.weight_bytes;
}

double fit_weights(std::span<const OperatorSample> samples, double launch) {
  std::vector<std::pair<double, double>> xy;
  for (const OperatorSample& sample : samples) {
    if (reads_weights(sample) && sample.type == graph::DataType::float32)
      xy.emplace_back(sample.work.weight_bytes, std::max(sample.seconds - launch, 1e-9));
  }
  return xy.empty() ? 0 : rate_of(fit_line(xy).slope);
}

/// The part of a sample's time that is arithmetic, by the device as known so far: the inverse of
/// CostModel::work_seconds.
double arithmetic_seconds(const OperatorSample& sample, const CostModel& known) {
  const DeviceModel& device = known.device();
  const double all = std::max(sample.seconds - device.launch_seconds, 0.0);
  const double traffic = known.traffic_seconds(sample.work);
  const double exposed = 1 - device.overlap;
  double arithmetic = all - exposed * traffic;  // the longer of the two
  if (arithmetic < traffic && exposed > 0) arithmetic = (all - traffic) / exposed;  // the shorter
  return arithmetic;
}

std::map<graph::DataType, SizedRate> fit_products(std::span<const OperatorSample> samples,
                                                  const CostModel& known) {
  std::map<graph::DataType, Rates> rates;
  for (const OperatorSample& sample : samples) {
    if (sample.work.operations == 0 || reads_weights(sample)) continue;
    const double seconds =
        std::max(arithmetic_seconds(sample, known), least_arithmetic * sample.seconds);
    add_rate(rates[sample.type], sample.work.product_operations, sample.work.operations, seconds);
  }
  std::erase_if(rates, [](const auto& of_type) { return of_type.second.empty(); });
  std::map<graph::DataType, SizedRate> fitted;
  for (const auto& [type, of_type] : rates) fitted.emplace(type, slowing_rate(in_steps(of_type)));
  return fitted;
}

/// The sum of squares of relative errors of float32's products.
double product_error(std::span<const OperatorSample> samples, const DeviceModel& device) {
  const CostModel model(device, sharding::DeviceMesh({1}));
  double sum = 0;
  for (const OperatorSample& sample : samples) {
    if (sample.work.operations == 0 || sample.type != graph::DataType::float32) continue;
    const double seconds = model.work_seconds(sample.work, sample.type, sample.op_type);
    sum += std::pow(seconds / sample.seconds - 1, 2);
  }
  return sum;
}

/// Tries some parts and keeps the one under which rates by size explain the products best; of
/// equally good ones the greatest.
void fit_overlap_and_products(std::span<const OperatorSample> samples, DeviceModel& device) {
  constexpr int steps = 10;
  std::optional<DeviceModel> best;
  double least = 0;
  for (int step = steps; step >= 0; --step) {
    DeviceModel tried = device;
    tried.overlap = static_cast<double>(step) / steps;
    tried.flops_per_second = fit_products(samples, CostModel(tried, sharding::DeviceMesh({1})));
    if (!tried.flops_per_second.contains(graph::DataType::float32)) continue;
    const double error = product_error(samples, tried);
    if (best && !(error < least * (1 - 1e-6))) continue;  // or it is no number
    best = std::move(tried);
    least = error;
  }
  if (!best) fail("no product of float32 could be measured on this device");
  device = std::move(*best);
}

std::map<std::string, double, std::less<>> fit_elements(std::span<const OperatorSample> samples,
                                                        const CostModel& known) {
  std::map<std::string, std::vector<double>> by_type;
  for (const OperatorSample& sample : samples) {
    if (sample.work.operations > 0 || sample.op_type == memory_operator ||
        sample.work.bytes > cached_bytes) {
      continue;
    }
    by_type[sample.op_type].push_back(std::max(arithmetic_seconds(sample, known), 0.0) /
                                      sample.work.elements);
  }
  std::map<std::string, double, std::less<>> fitted;
  for (auto& [op_type, seconds] : by_type) fitted[op_type] = median(std::move(seconds));
  return fitted;
}

LinkSpeed fit_speed(std::span<const CollectiveSample* const> samples) {
  std::vector<std::pair<double, double>> xy;  // bytes and seconds of a round
  for (const CollectiveSample* sample : samples) {
    const Rounds rounds = rounds_of(sample->kind, sample->ranks, sample->bytes);
    xy.emplace_back(rounds.bytes, sample->seconds / rounds.rounds);
  }
  const Line line = fit_line(xy);
  return {line.intercept, rate_of(line.slope)};
}

/// nullopt for an axis of one rank, over which nothing was sent.
std::optional<Link> fit_link(std::span<const CollectiveSample> samples, int axis) {
  std::map<sharding::StepKind, std::vector<const CollectiveSample*>> by_kind;
  std::vector<const CollectiveSample*> all;
  for (const CollectiveSample& sample : samples) {
    if (sample.mesh_axis != axis) continue;
    by_kind[sample.kind].push_back(&sample);
    all.push_back(&sample);
  }
  if (all.empty()) return std::nullopt;
  const LinkSpeed speed = fit_speed(all);
  Link link{speed.latency_seconds, speed.bytes_per_second};
  for (const auto& [kind, of_kind] : by_kind) link.by_kind[kind] = fit_speed(of_kind);
  return link;
}

/// An axis that was not measured has the slowest link that was, since on another mesh it may have
/// ranks; where there is none, one that costs nothing.
std::vector<Link> fit_links(const Measurements& measurements) {
  std::vector<std::optional<Link>> fitted;
  std::optional<Link> slowest;
  const auto seconds = [](const Link& link) {
    return link.latency_seconds + bytes_of_a_round / link.bytes_per_second;
  };
  for (int axis = 0; axis < measurements.mesh_axes; ++axis) {
    const std::optional<Link>& link = fitted.emplace_back(fit_link(measurements.collectives, axis));
    if (link && (!slowest || seconds(*link) > seconds(*slowest))) slowest = link;
  }
  std::vector<Link> links;
  for (const std::optional<Link>& link : fitted)
    links.push_back(link ? *link : slowest.value_or(Link{0, fastest}));
  return links;
}

}  // namespace

Line fit_line(std::span<const std::pair<double, double>> xy) {
  // Minimises the sum of ((intercept + slope x - y) / y)^2.
  double w = 0;
  double wx = 0;
  double wxx = 0;
  double wy = 0;
  double wxy = 0;
  for (const auto& [x, y] : xy) {
    const double weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
  }
  const double determinant = w * wxx - wx * wx;
  if (determinant > 1e-12 * w * wxx) {
    const Line line{(wy * wxx - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
    if (line.intercept >= 0 && line.slope >= 0) return line;
    if (line.slope < 0) return {wy / w, 0};
  }
  return {0, wxx > 0 ? wxy / wxx : 0};
}

DeviceModel fit_device(const Measurements& measurements) {
  DeviceModel device;
  device.launch_seconds = fit_launch(measurements.operators);
  device.memory_bytes_per_second = fit_memory(measurements.operators, device.launch_seconds);
  device.weight_bytes_per_second = fit_weights(measurements.operators, device.launch_seconds);
  fit_overlap_and_products(measurements.operators, device);
  device.element_seconds =
      fit_elements(measurements.operators, CostModel(device, sharding::DeviceMesh({1})));
  device.links = fit_links(measurements);
  return device;
}

std::vector<FitQuality> fit_quality(const DeviceModel& device, const Measurements& measurements) {
  std::vector<std::pair<std::string, std::vector<double>>> errors;  // in the order measured
  const auto add = [&](const std::string& what, double predicted, double measured) {
    auto found =
        std::ranges::find(errors, what, &std::pair<std::string, std::vector<double>>::first);
    if (found == errors.end()) found = errors.insert(errors.end(), {what, {}});
    found->second.push_back(std::abs(predicted / measured - 1));
  };
  const CostModel alone(device, sharding::DeviceMesh({1}));
  for (const OperatorSample& sample : measurements.operators) {
    add(fmt::format("{} {}", sample.op_type, graph::name_of(sample.type)),
        alone.work_seconds(sample.work, sample.type, sample.op_type), sample.seconds);
  }
  for (const CollectiveSample& sample : measurements.collectives) {
    const LinkSpeed speed = device.link(sample.mesh_axis).speed(sample.kind);
    add(fmt::format("{} over mesh axis {}", sharding::name_of(sample.kind), sample.mesh_axis),
        rounds_of(sample.kind, sample.ranks, sample.bytes).seconds(speed), sample.seconds);
  }
  std::vector<FitQuality> quality;
  for (const auto& [what, all] : errors) {
    quality.push_back(
        {what, static_cast<int>(all.size()), median(all), *std::ranges::max_element(all)});
  }
  return quality;
}

}  // namespace autopar::cost
