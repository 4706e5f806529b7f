// Dynamic programming over stages with the slowest one's time enumerated (Alpa, OSDI 22, section
// 5.2), with the transfers between stages as slots of their own.
//
// rest(j, p, a): the least sum of all that follows, where layers [0, j) are on devices [0, p) and
// the last of their stages has size a: the transfer at cut j, a stage of layers [j, k) on the next
// devices, and rest(k, p + b, b). So the rest begins at layer k with the devices that are left.
// A transfer depends on the smaller of two stages alone, so that
//   rest(j, p, a) = min(min over b <= a of transfer(b) + next(b), transfer(a) + min over b > a)
// with next(b) = min over k of stage(b, j, k) + rest(k, p + b, b): two running minima, and the
// size of the last stage costs no more than to be told apart.
//
// The limit on the slowest slot is lowered from no limit at all. What is found under a limit has
// the least sum of all that keep to it. So what is slower than its own slowest slot is no better,
// and what is faster has no smaller sum: below the limit under which that sum alone would still
// lead to a better cost, or to one better by more than epsilon, is where the next is looked for.

#include "search/stages/stage_sequence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "assignment/cost_table.h"
#include "base/error.h"

namespace autopar::search {

namespace {

using assignment::Cost;
using assignment::impossible;
using assignment::saturated;
using assignment::WideCost;

/// Where stages may begin and end.
struct Places {
  std::vector<std::vector<int>> begins;  ///< by device: the sizes of stages that may begin there
  /// By device and size of the stage that ends before it, a number; -1 where none does.
  std::vector<int> slots;
  int num_slots = 0;
};

Places find_places(const SequenceProblem& problem) {
  const int devices = problem.devices;
  const int sizes = std::ssize(problem.sizes);
  Places places{.begins = std::vector<std::vector<int>>(devices + 1),
                .slots = std::vector<int>((devices + 1) * problem.sizes.size(), -1)};
  std::vector<bool> is_reached(devices + 1, false);
  is_reached[0] = true;
  for (int p = 0; p < devices; ++p) {
    if (!is_reached[p]) continue;
    for (int b = 0; b < sizes; ++b) {
      const int end = p + problem.sizes[b];
      if (end > devices || !problem.has_place(b, p)) continue;
      places.begins[p].push_back(b);
      is_reached[end] = true;
      int& slot = places.slots[end * sizes + b];
      if (slot < 0) slot = places.num_slots++;
    }
  }
  return places;
}

/// What `fill` finds: the best of all that keeps to a limit, from the last layer back to the first.
struct Tables {
  const SequenceProblem& problem;
  const Places places = find_places(problem);
  const int num_sizes = std::ssize(problem.sizes);
  const std::size_t width = problem.layers + 1;
  Cost limit = impossible;
  std::vector<Cost> stages = {};  ///< within the limit
  /// By stages left (0 where their number is open), slot and layer.
  std::vector<Cost> rest =
      std::vector<Cost>(std::max(problem.stage_count, 1) * places.num_slots * width);
  std::vector<Cost> next = std::vector<Cost>(num_sizes * width);  ///< by size and layer

  int slot(int p, int size) const { return places.slots[p * num_sizes + size]; }
  Cost* rest_at(int left, int p, int size) {
    return &rest[(left * static_cast<std::size_t>(places.num_slots) + slot(p, size)) * width];
  }
  Cost& next_at(int size, int layer) { return next[size * width + layer]; }
  /// The cost, where it is within the limit.
  Cost limited(Cost cost) const { return cost <= limit ? cost : impossible; }
  Cost transfer(int p, int cut, int smaller) const {
    return limited(problem.transfer(p % problem.devices_per_node == 0, cut, smaller));
  }
};

/// A stage of each size that begins at device p, at each layer, with all behind it.
template <typename Combine>
void find_next(Tables& tables, int left_behind, int p, Combine combine) {
  const SequenceProblem& problem = tables.problem;
  for (const int b : tables.places.begins[p]) {
    const Cost* behind = tables.rest_at(left_behind, p + problem.sizes[b], b);
    Cost* found = &tables.next_at(b, 0);
    for (int j = 0; j < problem.layers; ++j) {
      const Cost* stage = tables.stages.data() + problem.stage_place(b, j, 0);
      Cost least = impossible;
      for (int k = j + 1; k <= problem.layers; ++k)
        least = std::min(least, combine(stage[k], behind[k]));
      found[j] = least;
    }
  }
}

/// What follows a stage of each size that ends before device p, at each layer.
template <typename Combine>
void find_rest(Tables& tables, int left, int p, Combine combine) {
  const std::vector<int>& begins = tables.places.begins[p];
  if (begins.empty()) return;
  std::vector<Cost> suffix(tables.num_sizes + 1, impossible);  // from a size on
  for (int j = 1; j < tables.problem.layers; ++j) {
    auto b = begins.rbegin();
    for (int a = tables.num_sizes - 1; a >= 0; --a) {
      suffix[a] = suffix[a + 1];
      if (b != begins.rend() && *b == a) suffix[a] = std::min(suffix[a], tables.next_at(*b++, j));
    }
    if (suffix[0] >= impossible) continue;
    Cost of_smaller = impossible;  // with their transfers
    auto smaller = begins.begin();
    for (int a = 0; a < tables.num_sizes; ++a) {
      const Cost crossing = tables.transfer(p, j, a);
      if (smaller != begins.end() && *smaller == a)
        of_smaller = std::min(of_smaller, combine(crossing, tables.next_at(*smaller++, j)));
      if (tables.slot(p, a) < 0) continue;
      tables.rest_at(left, p, a)[j] =
          std::min({impossible, of_smaller, combine(crossing, suffix[a + 1])});
    }
  }
}

/// Fills in the tables for all that keeps to the limit; returns what the best of it comes to.
template <typename Combine>
Cost fill(Tables& tables, Cost limit, Combine combine) {
  const SequenceProblem& problem = tables.problem;
  tables.limit = limit;
  tables.stages = problem.stages;
  for (Cost& cost : tables.stages) cost = tables.limited(cost);
  std::ranges::fill(tables.rest, impossible);
  for (int b = 0; b < tables.num_sizes; ++b)
    if (tables.slot(problem.devices, b) >= 0)
      tables.rest_at(0, problem.devices, b)[problem.layers] = 0;
  // Where their number is open, all have no stages left.
  const bool is_open = problem.stage_count == 0;
  const int most_left = is_open ? 0 : problem.stage_count - 1;
  for (int left = is_open ? 0 : 1; left <= most_left; ++left) {
    const int left_behind = is_open ? 0 : left - 1;
    for (int p = problem.devices - std::max(left, 1); p > 0; --p) {
      find_next(tables, left_behind, p, combine);
      find_rest(tables, left, p, combine);
    }
  }
  find_next(tables, most_left, 0, combine);
  Cost best = impossible;
  for (const int b : tables.places.begins.front()) best = std::min(best, tables.next_at(b, 0));
  return best;
}

/// The stage that begins at layer `begin` and device p behind one of size `last` (-1: none), where
/// all from there on comes to the sum, and the transfer to it. Longer stages on more devices first.
std::pair<StageChoice, Cost> step(Tables& tables, int left_behind, int begin, int p, int last,
                                  Cost sum) {
  const SequenceProblem& problem = tables.problem;
  const std::vector<int>& begins = tables.places.begins[p];
  for (auto b = begins.rbegin(); b != begins.rend(); ++b) {
    const Cost crossing = last < 0 ? 0 : tables.transfer(p, begin, std::min(last, *b));
    const Cost* behind = tables.rest_at(left_behind, p + problem.sizes[*b], *b);
    for (int k = problem.layers; k > begin; --k) {
      const Cost stage = tables.limited(problem.stage(*b, begin, k));
      if (assignment::plus(assignment::plus(crossing, stage), behind[k]) == sum)
        return {{begin, k, *b, p}, crossing};
    }
  }
  throw InternalError("internal error: a sequence leads to the sum that was found");
}

/// The sequence of the least sum under the limit.
std::optional<StageSequence> least_sum(Tables& tables, Cost limit) {
  const SequenceProblem& problem = tables.problem;
  Cost sum = fill(tables, limit, std::plus<Cost>());
  if (sum >= impossible) return std::nullopt;
  StageSequence found{.stages = {}, .sum = sum};
  int left = problem.stage_count;
  for (int j = 0, p = 0, last = -1; j < problem.layers;) {
    left = std::max(left - 1, 0);
    const auto [stage, crossing] = step(tables, left, j, p, last, sum);
    const Cost cost = problem.stage(stage.size, stage.begin, stage.end);
    found.slowest = std::max({found.slowest, cost, crossing});
    sum -= cost + crossing;
    j = stage.end;
    p += problem.sizes[stage.size];
    last = stage.size;
    found.stages.push_back(stage);
  }
  return found;
}

std::optional<StageSequence> least_latency(Tables& tables) {
  const WideCost further = tables.problem.microbatches - 1;
  const auto total = [&](Cost sum, Cost slowest) { return saturated(sum + further * slowest); };
  std::optional<StageSequence> best;
  Cost missed = impossible;  // no sequence that was passed over costs less
  Cost limit = impossible - 1;
  while (auto found = least_sum(tables, limit)) {
    const auto [sum, slowest] = std::pair(found->sum, found->slowest);
    found->cost = total(sum, slowest);
    if (!best || found->cost < best->cost) best = std::move(found);
    if (further == 0) break;
    const auto close = static_cast<Cost>(
        std::floor(static_cast<double>(best->cost) / (1 + tables.problem.epsilon)));
    const Cost goal = std::min(best->cost - 1, close);
    if (goal < sum) {
      missed = std::min(missed, sum);
      break;
    }
    limit = std::min(slowest - 1, static_cast<Cost>((goal - sum) / further));
    if (limit < slowest - 1) missed = std::min(missed, total(sum, limit + 1));
  }
  if (best) best->lower_bound = std::min(best->cost, missed);
  return best;
}

std::optional<StageSequence> most_throughput(Tables& tables) {
  const Cost slowest = fill(tables, impossible - 1, [](Cost a, Cost b) { return std::max(a, b); });
  if (slowest >= impossible) return std::nullopt;
  auto best = least_sum(tables, slowest);
  require(best.has_value(), "a sequence keeps to the limit that it was found under");
  best->cost = saturated(WideCost{best->slowest} * tables.problem.microbatches);
  best->lower_bound = best->cost;
  return best;
}

}  // namespace

void SequenceProblem::allocate() {
  stages.assign(stage_place(std::ssize(sizes), 0, 0), impossible);
  transfers.assign(transfer_place(true, layers + 1, 0), 0);
}

bool SequenceProblem::has_place(int size, int first_rank) const {
  const int place = first_rank % devices_per_node;
  const int needed = sizes[size];
  return needed % devices_per_node == 0 ? place == 0 : place + needed <= devices_per_node;
}

std::optional<StageSequence> best_sequence(const SequenceProblem& problem) {
  require(problem.layers > 0 && problem.devices > 0 && problem.microbatches > 0,
          "a pipeline has layers, devices and microbatches");
  if (problem.stage_count > problem.layers) return std::nullopt;
  Tables tables{.problem = problem};
  return problem.objective == plan::Objective::latency ? least_latency(tables)
                                                       : most_throughput(tables);
}

std::vector<int> possible_stage_counts(const SequenceProblem& problem) {
  std::vector<std::vector<bool>> counts(problem.devices + 1,
                                        std::vector<bool>(problem.layers + 1, false));
  counts[0][0] = true;
  for (int p = 0; p < problem.devices; ++p) {
    for (int b = 0; b < static_cast<int>(problem.sizes.size()); ++b) {
      const int end = p + problem.sizes[b];
      if (end > problem.devices || !problem.has_place(b, p)) continue;
      for (int count = 0; count < problem.layers; ++count)
        if (counts[p][count]) counts[end][count + 1] = true;
    }
  }
  std::vector<int> possible;
  for (int count = 1; count <= problem.layers; ++count)
    if (counts[problem.devices][count]) possible.push_back(count);
  return possible;
}

}  // namespace autopar::search
