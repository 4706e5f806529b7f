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
  const std::vector<NamedForm> forms_of_ends = named_forms_of(to);
  const std::vector<NamedForm> forms_of_starts = named_forms_of(from);
  std::map<Renaming, std::vector<Number>> destinations;
  std::map<const Form*, std::vector<Start>> starts;  // by source, whose ways one thread finds
  for (std::size_t place = 0; place < from.size(); ++place) {
    const auto [form, renaming] = forms_of_starts[place];
    const Renaming to_form = alike_.exchangeable ? alike_.exchangeable->inverse(renaming) : 0;
    const auto [numbers, is_new] = destinations.try_emplace(to_form);
    if (is_new)
      for (const NamedForm& end : forms_of_ends) numbers->second.push_back(number_of(end, to_form));
    starts[form].push_back({place, SpecKey(from[place]), &numbers->second});
  }
  struct Source {
    Ways& ways;
    std::span<const Start> starts;
  };
  std::vector<Source> sources;
  for (const auto& [form, its] : starts) {
    const auto [ways, is_new] = ways_.try_emplace(form);
    if (is_new) ways->second.offer(form->first, 0);
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

std::vector<ConnectionSeconds::NamedForm> ConnectionSeconds::named_forms_of(
    std::span<const TensorShardSpec> specs) {
  std::vector<NamedForm> named;
  for (const TensorShardSpec& spec : specs) {
    require(spec.dims.size() == shape_.size(), "specs have one entry a dimension");
    named.push_back(named_form_of(spec));
  }
  return named;
}

ConnectionSeconds::NamedForm ConnectionSeconds::named_form_of(const TensorShardSpec& spec) {
  const AxisRenamings* const renamings = alike_.exchangeable.get();
  const AxisNames names =
      renamings != nullptr ? names_by_first_use(spec, renamings->symmetric()) : AxisNames{};
  const SpecKey in_order = SpecKey(spec).renamed(names);
  const auto [place, is_new] = places_.try_emplace(in_order, forms_.size());
  if (is_new) {
    TensorShardSpec form = in_order.spec(shape_.size());
    const Renaming* const representatives =
        renamings != nullptr ? renamings->representatives(form).data() : nullptr;
    forms_.push_back(
        {static_cast<Number>(forms_.size() * renamings_), std::move(form), representatives});
  }
  const Renaming renaming = renamings != nullptr ? renamings->number_of(inverse(names)) : 0;
  return {&forms_[place->second], renaming};
}

ConnectionSeconds::Number ConnectionSeconds::number_of(const NamedForm& spec, Renaming then) const {
  if (!alike_.exchangeable) return spec.form->first;
  const Renaming both = alike_.exchangeable->followed_by(then)[spec.renaming];
  return spec.form->first + spec.form->representatives[both];
}

const std::vector<ConnectionSeconds::Step>& ConnectionSeconds::steps_of(std::size_t form) {
  {
    const std::shared_lock lock(forms_mutex_);
    if (const auto& known = forms_[form].steps) return *known;
  }
  const std::unique_lock lock(forms_mutex_);
  Form& from = forms_[form];
  if (!from.steps)
    from.steps = priced_steps_of(from.spec);  // it may add forms, which stay in place
  return *from.steps;
}

std::vector<ConnectionSeconds::Step> ConnectionSeconds::priced_steps_of(
    const TensorShardSpec& spec) {
  std::vector<Step> steps;
  const bool is_exact = alike_.relaxed.empty();
  const auto add = [&](const TensorShardSpec& each) {
    for_each_step_from(each, shape_, mesh_, [&](const ReshardStep& step) {
      const double seconds = price_(step, shape_, type_);
      require(!(seconds < 0), "a step has no negative price");
      if (std::isinf(seconds)) return;
      const auto [to, renaming] =
          named_form_of(is_exact ? step.after : canonical(step.after, alike_.relaxed));
      steps.push_back({to, renaming, seconds});
    });
  };
  if (is_exact)
    add(spec);
  else
    for (const TensorShardSpec& order : orders_of(spec, alike_.relaxed)) add(order);
  const auto place = [](const Step& step) { return std::pair(step.to->first, step.renaming); };
  std::ranges::sort(steps, {},
                    [&](const Step& step) { return std::pair(place(step), step.seconds); });
  const auto is_same_way = [&](const Step& a, const Step& b) { return place(a) == place(b); };
  steps.erase(std::unique(steps.begin(), steps.end(), is_same_way), steps.end());  // cheapest first
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
    if (!ways.is_final(spec)) {
      const auto& steps = steps_of(spec / renamings_);  // where that throws, nothing has changed
      ways.are_final[spec] = 1;
      wanted.erase(spec);
      const auto renaming = static_cast<Renaming>(spec % renamings_);
      ways.open.pop();
      for (const Step& step : steps)
        ways.offer(number_of({step.to, step.renaming}, renaming), seconds + step.seconds);
    } else {
      ways.open.pop();
    }
  }
}

}  // namespace autopar::sharding
