#include "sharding/connection_seconds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/in_parallel.h"

namespace autopar::sharding {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace

double ConnectionSeconds::of(const TensorShardSpec& src, const TensorShardSpec& dst) {
  return between({&src, 1}, {&dst, 1}).front();
}

std::vector<double> ConnectionSeconds::between(std::span<const TensorShardSpec> from,
                                               std::span<const TensorShardSpec> to,
                                               const std::optional<TimeLimit>& limit,
                                               std::size_t threads) {
  const std::vector<SpecKey> ends(to.begin(), to.end());
  std::map<AxisNames, std::vector<Number>> destinations;
  std::map<Number, std::vector<Start>> starts;  // by source, whose ways one thread finds
  for (std::size_t place = 0; place < from.size(); ++place) {
    const AxisNames names = names_by_first_use(from[place], alike_.exchangeable);
    const auto [numbers, is_new] = destinations.try_emplace(names);
    if (is_new) numbers->second = numbers_of(to, names);
    const Number source = numbers_of(from.subspan(place, 1), names).front();
    starts[source].push_back({place, SpecKey(from[place]), &numbers->second});
  }
  struct Source {
    Ways& ways;
    std::span<const Start> starts;
  };
  std::vector<Source> sources;
  for (const auto& [number, its] : starts) {
    const auto [ways, is_new] = ways_.try_emplace(number);
    if (is_new) ways->second.offer(number, 0);
    sources.push_back({ways->second, its});
  }
  std::vector<double> all(from.size() * to.size(), infinite);
  const auto find_from = [&](std::size_t i) {
    const auto& [ways, its] = sources[i];
    for (const Start& start : its) {
      if (limit) limit->check();
      find(ways, start, ends);
      for (std::size_t end = 0; end < ends.size(); ++end)
        if (ways.is_final((*start.destinations)[end]))
          all[start.place * ends.size() + end] = ways.seconds[(*start.destinations)[end]];
    }
  };
  in_parallel(sources.size(), find_from, threads);
  return all;
}

std::vector<ConnectionSeconds::Number> ConnectionSeconds::numbers_of(
    std::span<const TensorShardSpec> specs, const AxisNames& names) {
  std::vector<Number> numbers;
  for (const TensorShardSpec& spec : specs) {
    require(spec.dims.size() == shape_.size(), "specs have one entry a dimension");
    numbers.push_back(number_of(SpecKey(spec).renamed(names)));
  }
  return numbers;
}

ConnectionSeconds::Number ConnectionSeconds::number_of(const SpecKey& key) {
  const auto [entry, is_new] = numbers_.try_emplace(key, static_cast<Number>(keys_.size()));
  if (is_new) {
    keys_.push_back(key);
    steps_.emplace_back();
  }
  return entry->second;
}

const std::vector<ConnectionSeconds::Step>& ConnectionSeconds::steps_of(Number from) {
  {
    const std::shared_lock lock(steps_mutex_);
    if (steps_[from]) return *steps_[from];
  }
  const std::unique_lock lock(steps_mutex_);
  if (!steps_[from]) {
    std::vector<Step> steps = found_steps_of(from);  // it adds specs, and so their empty steps
    steps_[from] = std::move(steps);
  }
  return *steps_[from];
}

std::vector<ConnectionSeconds::Step> ConnectionSeconds::found_steps_of(Number from) {
  std::vector<Step> steps;
  const auto add = [&](const std::vector<StepToKey>& priced, const AxisNames& names) {
    for (const auto& [to, seconds] : priced)
      steps.push_back({number_of(to.renamed(names)), seconds});
  };
  const TensorShardSpec spec = keys_[from].spec(shape_.size());
  if (alike_.exchangeable.empty()) {
    add(priced_steps_of(spec), {});
  } else {
    const AxisNames names = names_by_first_use(spec, alike_.exchangeable);
    const SpecKey in_order = keys_[from].renamed(names);
    auto priced = steps_once_.find(in_order);
    if (priced == steps_once_.end())
      priced = steps_once_.emplace(in_order, priced_steps_of(in_order.spec(shape_.size()))).first;
    add(priced->second, inverse(names));
  }
  std::ranges::sort(steps, {}, [](const Step& step) { return std::pair(step.to, step.seconds); });
  const auto is_same_way = [](const Step& a, const Step& b) { return a.to == b.to; };
  steps.erase(std::unique(steps.begin(), steps.end(), is_same_way), steps.end());  // cheapest first
  return steps;
}

std::vector<ConnectionSeconds::StepToKey> ConnectionSeconds::priced_steps_of(
    const TensorShardSpec& spec) const {
  std::vector<StepToKey> steps;
  const bool is_exact = alike_.relaxed.empty();
  const auto add = [&](const TensorShardSpec& each) {
    for_each_step_from(each, shape_, mesh_, [&](const ReshardStep& step) {
      const double seconds = price_(step, shape_, type_);
      require(!(seconds < 0), "a step has no negative price");
      if (std::isinf(seconds)) return;
      steps.push_back(
          {SpecKey(is_exact ? step.after : canonical(step.after, alike_.relaxed)), seconds});
    });
  };
  if (is_exact)
    add(spec);
  else
    for (const TensorShardSpec& order : orders_of(spec, alike_.relaxed)) add(order);
  return steps;
}

void ConnectionSeconds::Ways::offer(Number to, double seconds_of_way) {
  if (to >= seconds.size()) {
    seconds.resize(to + 1, infinite);
    are_final.resize(to + 1, 0);
  }
  if (seconds_of_way >= seconds[to]) return;
  seconds[to] = seconds_of_way;
  open.emplace(seconds_of_way, to);
}

void ConnectionSeconds::find(Ways& ways, const Start& start, std::span<const SpecKey> ends) {
  std::set<Number> wanted;
  for (std::size_t end = 0; end < ends.size(); ++end) {
    const Number destination = (*start.destinations)[end];
    if (ways.is_final(destination)) continue;
    // Canonical specs name axes that others may stand for.
    if (!alike_.relaxed.empty() || start.key.connects_to(ends[end])) wanted.insert(destination);
  }
  while (!wanted.empty() && !ways.open.empty()) {
    const auto [seconds, spec] = ways.open.top();
    const std::vector<Step>& steps = steps_of(spec);  // where that throws, nothing has changed
    ways.open.pop();
    if (ways.is_final(spec)) continue;
    ways.are_final[spec] = 1;
    wanted.erase(spec);
    for (const Step& step : steps) ways.offer(step.to, seconds + step.seconds);
  }
}

}  // namespace autopar::sharding
