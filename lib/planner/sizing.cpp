#include "planner/sizing.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/free_memory.h"
#include "base/in_parallel.h"
#include "base/interruption.h"
#include "base/problems.h"
#include "graph/operators/library_operator.h"
#include "planner/find_plan.h"
#include "planner/shared_search.h"
#include "planner/strategy_file.h"
#include "planner/summary.h"
#include "planner/token_count.h"
#include "search/search_plan.h"

namespace autopar::planner {

namespace {

constexpr double million = 1e6;
constexpr double seconds_an_hour = 3600;

/// Options without the pair's own, as far as they are the same for all pairs.
PlanOptions common_options(const PlanOptions& plan, const SizingOptions& sizing) {
  PlanOptions common = plan;
  common.ngpus = sizing.ngpus.size() == 1 ? sizing.ngpus.front() : 1;
  if (sizing.ngpus.size() > 1 || plan.mesh == "auto") common.mesh.clear();
  common.device = PlanOptions().device;
  if (sizing.ngpus.size() > 1 && has_annotations(plan)) common.strategy.clear();
  return common;
}

template <typename Entry>
void check_list(std::string_view option, const std::vector<Entry>& entries, Problems& problems) {
  if (entries.empty()) problems.add("{}: give at least one", option);
  std::set<Entry> known;
  for (const Entry& entry : entries)
    if (!known.insert(entry).second) problems.add("{} has {} twice; give it once", option, entry);
}

void check_lists(const PlanOptions& plan, const SizingOptions& sizing, Problems& problems) {
  check_list("--ngpus", sizing.ngpus, problems);
  check_list("--device", sizing.devices, problems);
  for (const int ngpus : sizing.ngpus)
    if (ngpus < 1) problems.add("--ngpus {}: give at least 1", ngpus);
  for (const std::string& device : sizing.devices)
    problems.collect([&, &device = device] { cost::load_device_model(device); });
  for (const auto& [device, price] : sizing.prices) {
    if (std::ranges::find(sizing.devices, device) == sizing.devices.end())
      problems.add("--price {}: --device does not name it", device);
    if (!std::isfinite(price) || price <= 0)
      problems.add("--price {}={}: give a number above 0", device, price);
  }
  const bool is_for_all = plan.mesh.empty() || plan.mesh == "auto" || plan.stages != "1";
  if (sizing.ngpus.size() > 1 && !is_for_all)
    problems.add("--mesh {}: --ngpus is a list; give auto, or leave it out", plan.mesh);
}

bool brings_rules(const LoadedModel& model, const PlanOptions& plan) {
  const auto is_of_library = [](const graph::Node& node) {
    return graph::find_library_operator(node.domain, node.op_type) != nullptr;
  };
  return plan.discover || plan.microbatches > 1 ||
         std::ranges::any_of(model.profiles, [&](const LoadedProfile& profile) {
           return std::ranges::any_of(profile.graph.nodes, is_of_library);
         });
}

/// A search takes no more than the process has taken so far, with the model and a first search.
std::size_t searches_that_fit_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const std::int64_t taken = std::max<std::int64_t>(used.ru_maxrss, 1) * 1024;
  const std::int64_t free = std::min(free_memory().bytes, free_address_space().bytes);
  return static_cast<std::size_t>(std::max<std::int64_t>(free / taken, 1));
}

/// Tokens of a run, summed over profiles by weight, as seconds are. nullopt where any has none.
std::optional<double> tokens_of(const LoadedModel& model) {
  double sum = 0;
  for (std::size_t p = 0; p < model.profiles.size(); ++p) {
    const auto tokens = tokens_of_run(model, p);
    if (!tokens) return std::nullopt;
    sum += model.profiles[p].weight * static_cast<double>(*tokens);
  }
  return sum;
}

/// `tokens` of a run.
SizedPlan sized(const Plan& plan, std::optional<double> tokens, std::optional<double> price) {
  const FoundPlan& found = plan.contents();
  const plan::Prediction& predicted = found.predicted;
  const double seconds = predicted.cost_seconds;
  SizedPlan sized{.summary = plan.summary(), .memory = rank_memory(found)};
  if (seconds > 0) {
    sized.communication_share = predicted.communication_seconds / seconds;
    sized.speed_up = sized.summary.one_device_seconds / seconds;
    sized.efficiency = sized.speed_up / sized.summary.ranks;
    if (tokens) sized.tokens_a_second = *tokens / seconds;
  }
  sized.fits = sized.memory.peak() <= found.profiles.front().device.memory_bytes;
  const double units = tokens.value_or(1);
  if (price && units > 0)
    sized.price = *price * sized.summary.ranks * seconds / seconds_an_hour / units * million;
  return sized;
}

void refuse(SizingRow& row, const std::string& reason, const std::string& refusal) {
  row.reason = reason;
  row.refusal = refusal;
}

void find(SizingRow& row, const Model& model, PlanOptions options, const SizingOptions& sizing,
          std::optional<double> tokens, const SearchShare& share) {
  options.ngpus = row.ngpus;
  options.device = row.device;
  options.progress = {};
  const auto price = sizing.prices.find(row.device);
  try {
    row.plan = sized(plan(model, options, share), tokens,
                     price == sizing.prices.end() ? std::nullopt : std::optional(price->second));
  } catch (const search::NothingFits& error) {
    const std::int64_t memory = search::limit_of(search::MemoryPolicy::parse(options.memory),
                                                 cost::load_device_model(options.device));
    refuse(row,
           error.least_bytes == std::numeric_limits<std::int64_t>::max()
               ? fmt::format("nothing is found that fits {}", in_bytes(memory))
               : fmt::format("needs {} a device, which has {}", in_bytes(error.least_bytes),
                             in_bytes(memory)),
           error.what());
  } catch (const Error& error) {
    refuse(row, error.what(), error.what());
  }
}

void mark(Sizing& sizing) {
  for (std::size_t i = 0; i < sizing.rows.size(); ++i) {
    const auto& plan = sizing.rows[i].plan;
    if (!plan || !plan->fits) continue;
    if (!sizing.first_that_fits) sizing.first_that_fits = i;
    if (!plan->price) continue;
    if (!sizing.cheapest || *plan->price < *sizing.rows[*sizing.cheapest].plan->price)
      sizing.cheapest = i;
  }
}

}  // namespace

std::map<std::string, double> parse_prices(const std::string& text) {
  std::map<std::string, double> prices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = entry.rfind('=');
    const char* const last = entry.data() + entry.size();
    double price = 0;
    const bool is_named = equals != std::string::npos && equals > 0;
    const auto [rest, error] =
        std::from_chars(is_named ? entry.data() + equals + 1 : last, last, price);
    if (error != std::errc() || rest != last)
      fail("--price {}: give DEVICE=PRICE of an hour, with commas between several", entry);
    if (!prices.emplace(entry.substr(0, equals), price).second)
      fail("--price has {} twice; give it once", entry.substr(0, equals));
  }
  return prices;
}

void check_sizing(const ModelOptions& model, const PlanOptions& plan, const SizingOptions& sizing) {
  check_options(model, common_options(plan, sizing), [&] {
    Problems problems;
    check_lists(plan, sizing, problems);
    problems.throw_if_any();
  });
}

Sizing size(const Model& model, const PlanOptions& plan, const SizingOptions& sizing) {
  const LoadedModel& loaded = model.contents();
  check_sizing(loaded.options, plan, sizing);
  const std::optional<double> tokens = tokens_of(loaded);
  Sizing result{.rows = {}, .assumed = model.assumed(), .counts_tokens = tokens.has_value()};
  for (const std::string& device : sizing.devices)
    for (const int ngpus : sizing.ngpus) result.rows.push_back({.device = device, .ngpus = ngpus});
  const InterruptionGuard guard{SIGINT};  // one for all: a search's own returns to it
  const Shown shown(plan.progress, fmt::format("searching for {} plans", result.rows.size()));
  find(result.rows.front(), model, plan, sizing, tokens, {});
  const std::size_t rest = result.rows.size() - 1;
  const std::size_t most =
      brings_rules(loaded, plan) ? 1 : std::min({cores(), rest, searches_that_fit_memory()});
  in_parallel(
      rest,
      [&](std::size_t i) {
        SizingRow& row = result.rows[i + 1];
        if (was_interrupted()) return refuse(row, "interrupted before its search", "interrupted");
        find(row, model, plan, sizing, tokens, {.threads = threads_of_each(most), .warns = false});
      },
      std::max<std::size_t>(most, 1));
  result.interrupted = was_interrupted();
  if (result.interrupted) spdlog::warn("interrupted: some of these plans are the best so far");
  mark(result);
  return result;
}

}  // namespace autopar::planner
