#include "search/coarse_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "assignment/local_search/forest_descent.h"
#include "base/stopwatch.h"

namespace autopar::search {

namespace {

using sharding::OpShardSpec;
using sharding::TensorShardSpec;

std::vector<int> refined(const std::vector<int>& axes, const AxisRuns& runs) {
  std::vector<int> fine;
  for (const int axis : axes) fine.insert(fine.end(), runs[axis].begin(), runs[axis].end());
  return fine;
}

TensorShardSpec refined(TensorShardSpec spec, const AxisRuns& runs) {
  for (std::vector<int>& axes : spec.dims) axes = refined(axes, runs);
  spec.partial = refined(spec.partial, runs);
  return spec;
}

OpShardSpec refined(OpShardSpec spec, const AxisRuns& runs) {
  for (std::vector<int>& axes : spec.factor_axes) axes = refined(axes, runs);
  for (auto* tensors : {&spec.inputs, &spec.computed, &spec.outputs})
    for (TensorShardSpec& tensor : *tensors) tensor = refined(std::move(tensor), runs);
  return spec;
}

/// Places of specs in a list; each is looked for once, as layers repeat.
template <typename Spec>
class Places {
 public:
  /// -1 where the fine list has no such one.
  int of(const std::vector<Spec>& coarse, int place, const AxisRuns& runs,
         const std::vector<Spec>& fine) {
    const auto [entry, is_new] = known_.try_emplace({&coarse, &fine, place}, -1);
    if (is_new) {
      const auto found = std::ranges::find(fine, refined(coarse[place], runs));
      if (found != fine.end()) entry->second = static_cast<int>(found - fine.begin());
    }
    return entry->second;
  }

 private:
  std::map<std::tuple<const void*, const void*, int>, int> known_;
};

/// The problem of the same profiles on a coarser mesh, with the fine problem's limits.
struct CoarseProblem {
  ProfilesOn on;
  PlanProblem built;

  CoarseProblem(const PlanProblem& fine, std::span<const Profile> fine_profiles,
                const sharding::DeviceMesh& mesh, const SearchOptions& options)
      : on(mesh, fine_profiles), built(build_plan_problem(on.profiles, options)) {
    built.problem.usage_limits = fine.problem.usage_limits;
  }
};

/// The part of the time for meshes that are coarser still.
constexpr double share_of_coarser = 0.3;
/// Seconds of work after which a plan to start from is good enough that is nearly proven.
constexpr double patience_seconds = 0.5;
constexpr double small_gap = 0.02;

}  // namespace

sharding::DeviceMesh coarse_mesh(const sharding::DeviceMesh& fine, const AxisRuns& runs) {
  std::vector<int> sizes;
  for (const std::vector<int>& axes : runs) sizes.push_back(fine.group_size(axes));
  return sharding::DeviceMesh(std::move(sizes));
}

std::optional<AxisRuns> runs_between(const sharding::DeviceMesh& coarse,
                                     const sharding::DeviceMesh& fine) {
  AxisRuns runs;
  int axis = 0;
  for (const int size : coarse.axis_sizes()) {
    std::vector<int>& run = runs.emplace_back();
    for (int so_far = 1; so_far < size && axis < fine.num_axes(); ++axis) {
      so_far *= fine.axis_size(axis);
      run.push_back(axis);
      if (size % so_far != 0) return std::nullopt;
    }
    if (fine.group_size(run) != size) return std::nullopt;
  }
  return axis == fine.num_axes() ? std::optional(runs) : std::nullopt;
}

AxisRuns with_one_axis_less(const cost::CostModel& fine) {
  const sharding::DeviceMesh& mesh = fine.mesh();
  std::optional<int> best;  // to be joined with the next axis
  const auto size_with_next = [&](int axis) {
    return mesh.axis_sizes()[axis] * mesh.axis_sizes()[axis + 1];
  };
  for (int axis = 0; axis + 1 < mesh.num_axes(); ++axis)
    if (fine.leaves_node(axis) == fine.leaves_node(axis + 1) &&
        (!best || size_with_next(axis) <= size_with_next(*best)))
      best = axis;
  const int joined = best.value_or(0);
  AxisRuns runs;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (axis == joined + 1)
      runs.back().push_back(axis);
    else
      runs.push_back({axis});
  }
  return runs;
}

plan::Plan refined(plan::Plan coarse, const AxisRuns& runs, const sharding::DeviceMesh& fine) {
  coarse.mesh = fine;
  for (OpShardSpec& strategy : coarse.operators) strategy = refined(std::move(strategy), runs);
  for (auto& [value, spec] : coarse.stored) spec = refined(std::move(spec), runs);
  return coarse;
}

std::optional<std::vector<int>> refined(const PlanProblem& coarse, const std::vector<int>& choice,
                                        const AxisRuns& runs, const PlanProblem& fine) {
  std::vector<int> known(fine.problem.nodes.size(), assignment::open_node);
  Places<OpShardSpec> strategies;
  for (std::size_t id = 0; id < fine.operators.size(); ++id) {
    known[id] =
        strategies.of(coarse.operators[id]->choices, choice[id], runs, fine.operators[id]->choices);
    if (known[id] < 0) return std::nullopt;
  }
  Places<TensorShardSpec> places;
  for (std::size_t i = 0; i < fine.stored.size(); ++i) {
    const PlanProblem::Stored& from = coarse.stored[i];
    const PlanProblem::Stored& to = fine.stored[i];
    known[to.node] = places.of(from.specs, choice[from.node], runs, to.specs);
    if (known[to.node] < 0) return std::nullopt;
  }
  return assignment::complete(fine.problem, std::move(known));
}

bool limits_bind_on_one_axis(const PlanProblem& built, std::span<const Profile> profiles,
                             const SearchOptions& options, double seconds) {
  const sharding::DeviceMesh mesh({profiles.front().cost->mesh().num_devices()});
  const CoarseProblem one_axis(built, profiles, mesh, options);
  assignment::AssignmentProblem unlimited = one_axis.built.problem;
  unlimited.usage_limits.clear();
  const assignment::Solution cheapest =
      assignment::solve(unlimited, {.time_limit_seconds = seconds, .threads = options.threads});
  return cheapest.status == assignment::Status::optimal &&
         !assignment::within_limits(one_axis.built.problem, cheapest.choice);
}

std::optional<std::vector<int>> choose_from_coarser(const PlanProblem& built,
                                                    std::span<const Profile> profiles,
                                                    const SearchOptions& options, double seconds) {
  const cost::CostModel& fine = *profiles.front().cost;
  if (fine.mesh().num_axes() < 2) return std::nullopt;
  const Stopwatch stopwatch;
  const AxisRuns runs = with_one_axis_less(fine);
  const CoarseProblem coarse(built, profiles, coarse_mesh(fine.mesh(), runs), options);
  assignment::SolveOptions solve{
      .patience_seconds = patience_seconds, .small_gap = small_gap, .threads = options.threads};
  if (auto start = choose_from_coarser(coarse.built, coarse.on.profiles, options,
                                       share_of_coarser * seconds))
    solve.starts.push_back(std::move(*start));
  solve.time_limit_seconds = std::max(0.0, seconds - stopwatch.seconds());
  const assignment::Solution solution = assignment::solve(coarse.built.problem, solve);
  if (solution.choice.empty()) return std::nullopt;
  auto choice = refined(coarse.built, solution.choice, runs, built);
  if (choice && !assignment::within_limits(built.problem, *choice)) choice.reset();
  return choice;
}

}  // namespace autopar::search
