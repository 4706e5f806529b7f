#include "search/stages/stage_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/in_parallel.h"
#include "search/stages/stage_pins.h"

namespace autopar::search {

namespace {

using Found = StageCosts::Found;

/// The part of the time left for one stage.
constexpr double share_of_stage = 0.1;

assignment::Cost to_cost(double seconds) { return std::llround(seconds / seconds_per_cost); }

Found search_stage(const StageFacts& facts, int view, const StageChoice& choice,
                   SearchOptions options) {
  const graph::StageGraph stage = facts.cut(choice.begin, choice.end);
  options.warns = false;
  options.pins.clear();
  for (const Pin& pin : facts.options.pins)
    if (auto own = pin_of_stage(pin, facts.graph, stage.graph))
      options.pins.push_back(std::move(*own));
  if (choice.begin > 0) options.rank0_bytes = 0;  // rank 0 is in the first stage
  Found result;
  try {
    SolvedPlan solved = search_plan(stage, facts.views[view].model, options);
    result.cost = to_cost(solved.plan.predicted.cost_seconds);
    // A quick method has no bound: plans' costs are compared.
    result.is_certain = options.method == SearchMethod::ilp;
    result.bound = result.is_certain
                       ? std::min(result.cost, to_cost(solved.report.lower_bound_seconds))
                       : result.cost;
    result.glpk_seconds = solved.report.glpk_seconds;
    result.plan = std::make_shared<const plan::Plan>(std::move(solved.plan));
  } catch (const NothingFits& error) {
    result.bound = assignment::impossible;
    result.is_certain = error.is_proven;
    result.refusal = error.what();
  } catch (const Error& error) {  // a pin that leaves nothing on this submesh, say
    result.bound = assignment::impossible;
    result.refusal = error.what();
  }
  return result;
}

}  // namespace

const Found* StageCosts::found(int view, const StageChoice& stage) const {
  const auto entry = found_.find({facts_.classes.of(stage.begin, stage.end), view});
  return entry == found_.end() ? nullptr : &entry->second;
}

assignment::Cost StageCosts::bound_on(int view, const StageChoice& stage) const {
  const Found* known = found(view, stage);
  if (known != nullptr && known->is_done) return known->bound;
  return bound_without_search(view, stage);
}

assignment::Cost StageCosts::bound_without_search(int view, const StageChoice& stage) const {
  const auto& operators = facts_.operator_bounds[facts_.views[view].size];
  return std::max(operators[stage.end] - operators[stage.begin],
                  blocks_.of(view, stage.begin, stage.end));
}

int StageCosts::view_of_least_bound(const StageChoice& stage) const {
  return *std::ranges::min_element(facts_.views_of_size[stage.size], {}, [&](int view) {
    return std::pair(bound_on(view, stage), view);
  });
}

assignment::Cost StageCosts::lower_bound(const StageChoice& stage) const {
  if (is_impossible(stage)) return assignment::impossible;
  return bound_on(view_of_least_bound(stage), stage);
}

assignment::Cost StageCosts::certain_bound(const StageChoice& stage) const {
  if (is_impossible(stage)) return assignment::impossible;
  assignment::Cost least = assignment::impossible;
  for (const int view : facts_.views_of_size[stage.size]) {
    const Found* known = found(view, stage);
    least =
        std::min(least, known != nullptr && !known->is_certain ? bound_without_search(view, stage)
                                                               : bound_on(view, stage));
  }
  return least;
}

/// What is known of the view that has the cheapest plan; null where none has one.
const Found* StageCosts::cheapest(const StageChoice& stage) const {
  const Found* best = nullptr;
  for (const int view : facts_.views_of_size[stage.size]) {
    const Found* known = found(view, stage);
    if (known != nullptr && known->plan && (best == nullptr || known->cost < best->cost))
      best = known;
  }
  return best;
}

assignment::Cost StageCosts::cost(const StageChoice& stage) const {
  const Found* best = cheapest(stage);
  return best != nullptr ? best->cost : assignment::impossible;
}

bool StageCosts::is_settled(const StageChoice& stage) const {
  if (lower_bound(stage) >= assignment::impossible) return true;
  const Found* known = found(view_of_least_bound(stage), stage);
  return known != nullptr && known->is_done;
}

const plan::Plan& StageCosts::plan(const StageChoice& stage) const {
  const Found* best = cheapest(stage);
  require(best != nullptr, "a stage that was chosen has a plan");
  return *best->plan;
}

bool StageCosts::is_impossible(const StageChoice& stage) const {
  return facts_.is_too_large(stage.size, stage.begin, stage.end) ||
         facts_.breaks_stages(stage.begin, stage.end);
}

std::string StageCosts::refusal(const StageChoice& stage) const {
  if (facts_.breaks_stages(stage.begin, stage.end)) return "";
  if (facts_.is_too_large(stage.size, stage.begin, stage.end)) {
    const std::int64_t devices = facts_.submeshes[stage.size].devices;
    const std::int64_t weights = facts_.weights[facts_.place(stage.begin, stage.end)];
    return fmt::format(
        "its weights take {:.1f} MiB of each of {} devices, of which {:.1f} MiB may "
        "be used: raise --memory or add devices",
        static_cast<double>(weights) / static_cast<double>(devices) / 1048576.0, devices,
        static_cast<double>(facts_.capacity()) / 1048576.0);
  }
  std::string text;
  for (const int view : facts_.views_of_size[stage.size]) {
    const Found* known = found(view, stage);
    if (known == nullptr || known->bound < assignment::impossible) return "";
    text = known->refusal;
  }
  return text;
}

void StageCosts::advance(std::span<const StageChoice> stages, double seconds_left) {
  std::map<int, int> levels;  // by view, that are wanted
  std::vector<std::pair<int, StageChoice>> runs;
  for (const StageChoice& stage : stages) {
    if (is_settled(stage)) continue;
    const int view = view_of_least_bound(stage);
    const int most = std::bit_width(static_cast<unsigned>(stage.end - stage.begin)) - 1;
    int level = blocks_.level(view) + 1;
    while (level <= most && !blocks_.is_worth_refining(view, level)) ++level;
    const bool is_bounded_by_blocks = facts_.flows_alike[facts_.classes.of(stage.begin, stage.end)];
    if (is_bounded_by_blocks && level <= most) {
      for (const int other : facts_.views_of_size[stage.size])
        levels[other] = std::max(levels[other], level);
    } else {
      runs.emplace_back(view, stage);
    }
  }
  const assignment::Deadline deadline(seconds_left);
  if (!levels.empty()) blocks_.refine(levels, deadline);
  search_all(runs, facts_.options, deadline, true);
}

/// On the first view of each at first, and on all others where that has none.
void StageCosts::find_quickly(std::span<const StageChoice> stages, double seconds_left) {
  const assignment::Deadline deadline(seconds_left);
  SearchOptions options = facts_.options;
  options.method = SearchMethod::recursive;
  options.bound = false;
  for (const bool is_first : {true, false}) {
    std::vector<std::pair<int, StageChoice>> runs;
    for (const StageChoice& stage : stages) {
      if (cost(stage) < assignment::impossible) continue;
      const std::vector<int>& views = facts_.views_of_size[stage.size];
      for (const int view : views) {
        const bool is_tried = found(view, stage) != nullptr;
        if (!is_tried && (!is_first || view == views.front())) runs.emplace_back(view, stage);
      }
    }
    search_all(runs, options, deadline, false);
  }
}

/// Those that are final are left out where the time is over when their turn comes.
void StageCosts::search_all(const std::vector<std::pair<int, StageChoice>>& runs,
                            const SearchOptions& options, const assignment::Deadline& deadline,
                            bool is_final) {
  std::map<std::pair<int, int>, StageChoice> distinct;
  for (const auto& [view, stage] : runs)
    distinct.try_emplace({facts_.classes.of(stage.begin, stage.end), view}, stage);
  const std::vector<std::pair<std::pair<int, int>, StageChoice>> jobs(distinct.begin(),
                                                                      distinct.end());
  const double share = share_of_stage * std::max(0.0, deadline.left());
  std::vector<std::optional<Found>> results(jobs.size());
  in_parallel(jobs.size(), [&](std::size_t i) {
    if (is_final && deadline.is_over()) return;
    SearchOptions own = options;
    own.time_limit_seconds = std::max(0.0, std::min(share, deadline.left()));
    own.threads = threads_of_each(jobs.size());
    const auto& [key, stage] = jobs[i];
    results[i] = search_stage(facts_, key.second, stage, own);
  });
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!results[i]) continue;
    Found& result = *results[i];
    glpk_seconds_ += result.glpk_seconds;
    const auto [entry, is_new] = found_.try_emplace(jobs[i].first);
    Found& known = entry->second;
    result.is_done = is_final;
    is_certain_ = is_certain_ && (!is_final || result.is_certain);
    if (is_new || is_final || result.cost < known.cost) known = std::move(result);
  }
}

}  // namespace autopar::search
