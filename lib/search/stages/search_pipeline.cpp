// Stages: the search is lazy and exact. Every run of layers on every submesh begins with a lower
// bound (stage_costs.h), the dynamic program (stage_sequence.h) takes bounds for costs, and those
// stages that it chooses are looked at more closely. When all stages that it chooses have their
// exact costs, no other sequence can be better, since bounds only rise. Where the number of stages
// is open, the plan of the whole model is compared with the best pipeline.

#include "search/stages/search_pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/logical_meshes.h"
#include "search/operator_bound.h"
#include "search/plan_builder.h"
#include "search/search_meshes.h"
#include "search/stages/stage_costs.h"
#include "search/stages/stage_pins.h"
#include "search/stages/stage_sequence.h"

namespace autopar::search {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// The epsilon of sequences that only tell what to look at next, from so many devices on.
constexpr double coarse_epsilon = 0.01;
constexpr int devices_worth_coarseness = 256;
/// The part of the time that is kept for the whole model's plan.
constexpr double share_of_whole = 0.4;
/// Sequences that are tried by the quick method where the time is over.
constexpr int most_hasty_sequences = 10;
/// With more axes, the bound of a mesh takes as long as its search.
constexpr int most_axes_of_bound = 3;

/// What a pipeline is searched for, as search_pipeline takes it.
struct PipelineTask {
  const graph::Graph& whole;
  const graph::Graph& microbatch;
  std::span<const cost::CostModel> meshes;
  const SearchOptions& options;
  const PipelineOptions& pipeline;
  Stopwatch stopwatch{};

  int devices() const { return meshes.front().mesh().num_devices(); }
  const cost::DeviceModel& device() const { return meshes.front().device(); }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
};

/// No pipeline was found that fits.
struct NoPipelineFits : NothingFits {
  NoPipelineFits(const std::string& message, double bound)
      : NothingFits(message, std::numeric_limits<std::int64_t>::max(), bound == infinity),
        lower_bound_seconds(bound) {}
  double lower_bound_seconds;  ///< no pipeline takes less; infinite where none fits
};

double seconds_left_for_stages(const PipelineTask& task) {
  const double share = task.pipeline.stages == 0 ? share_of_whole : 0;
  return task.seconds_left() - share * task.options.time_limit_seconds;
}

void require_possible_count(const PipelineTask& task, const SequenceProblem& problem) {
  const PipelineOptions& pipeline = task.pipeline;
  const std::vector<int> counts = possible_stage_counts(problem);
  if (pipeline.stages == 0 ? !counts.empty()
                           : std::ranges::find(counts, pipeline.stages) != counts.end())
    return;
  if (counts.empty()) {
    fail("--mesh {}: stages of {} devices do not fill {}: give a mesh whose devices divide them",
         to_string(*pipeline.mesh), pipeline.mesh->num_devices(), task.devices());
  }
  fail("--stages {}: {} devices cannot be cut into so many{}: {} would do", pipeline.stages,
       task.devices(), pipeline.mesh ? " of mesh " + to_string(*pipeline.mesh) : "",
       fmt::join(counts, ", "));
}

LayerCuts layers_of(const PipelineTask& task, const graph::StageCutter& cutter) {
  const PipelineOptions& pipeline = task.pipeline;
  const int one[] = {1};
  const std::vector<double> work =
      least_operator_seconds(one, task.microbatch, task.device()).front();
  const int layers = pipeline.layers > 0 ? std::max(pipeline.layers, pipeline.stages) : 0;
  LayerCuts cuts = cluster_layers(task.microbatch, cutter, work, layers);
  if (static_cast<int>(cuts.size()) - 1 < pipeline.stages)
    cuts = cluster_layers(task.microbatch, cutter, work, pipeline.stages);
  return with_pinned_cuts(std::move(cuts), task.options.pins, task.microbatch, cutter);
}

assignment::Cost transfer_cost(const PipelineTask& task, std::span<const graph::ValueId> crossing,
                               int devices, const cost::Link& link) {
  double seconds = 0;
  for (const graph::ValueId id : crossing) {
    const graph::Value& value = task.microbatch.value(id);
    const auto bytes = graph::bytes_of(value.type, graph::num_elements(value.shape));
    seconds += cost::transfer_seconds(bytes, devices, devices, link);
  }
  return picoseconds(seconds, "what crosses between two stages");
}

/// With the prices of transfers, without those of stages.
SequenceProblem empty_problem(const PipelineTask& task, const graph::StageCutter& cutter,
                              const LayerCuts& cuts, const std::vector<Submesh>& shapes) {
  SequenceProblem problem;
  problem.layers = static_cast<int>(cuts.size()) - 1;
  problem.devices = task.devices();
  problem.devices_per_node = devices_of_a_node(task.devices(), task.device().gpus_per_node);
  for (const Submesh& shape : shapes) problem.sizes.push_back(shape.devices);
  problem.microbatches = task.pipeline.microbatches;
  problem.objective = task.pipeline.objective;
  problem.stage_count = task.pipeline.stages;
  problem.epsilon = task.pipeline.epsilon;
  problem.allocate();
  for (int cut = 1; cut < problem.layers; ++cut) {
    const std::vector<graph::ValueId> crossing = cutter.crossing(cuts[cut]);
    for (const bool node_begins : {false, true}) {
      // Where there are no nodes, or one, no boundary is between two.
      if (node_begins && problem.devices_per_node == problem.devices) continue;
      const cost::Link& link =
          task.device().boundary_link(node_begins ? problem.devices_per_node : 1);
      for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
        problem.transfer(node_begins, cut, size) =
            transfer_cost(task, crossing, problem.sizes[size], link);
      }
    }
  }
  return problem;
}

/// Calls `visit` with size, begin and end of every stage there may be.
template <typename Visit>
void for_each_stage(const SequenceProblem& problem, const Visit& visit) {
  for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
    for (int begin = 0; begin < problem.layers; ++begin) {
      for (int end = begin + 1; end <= problem.layers; ++end) visit(size, begin, end);
    }
  }
}

using Price = assignment::Cost (StageCosts::*)(const StageChoice&) const;

void set_prices(SequenceProblem& problem, const StageCosts& costs, Price price) {
  for_each_stage(problem, [&](int size, int begin, int end) {
    problem.stage(size, begin, end) = (costs.*price)({begin, end, size});
  });
}

/// The best sequence of stages that have plans.
std::optional<StageSequence> best_known(const StageCosts& costs, SequenceProblem problem,
                                        double epsilon) {
  problem.epsilon = epsilon;
  set_prices(problem, costs, &StageCosts::cost);
  return best_sequence(problem);
}

void leave_out_refused(SequenceProblem& problem, const StageCosts& costs) {
  for_each_stage(problem, [&](int size, int begin, int end) {
    if (problem.stage(size, begin, end) < assignment::impossible &&
        !costs.refusal({begin, end, size}).empty())
      problem.stage(size, begin, end) = assignment::impossible;
  });
}

/// Finds plans for a sequence that bounds have chosen. Where the quick method, too, finds no plan
/// for some of its stages, it tries the best sequence without these, unless a sequence of plans is
/// known.
void find_quickly(const PipelineTask& task, StageCosts& costs, const SequenceProblem& problem,
                  const StageSequence& wanted) {
  SequenceProblem left = problem;
  std::optional<StageSequence> tried = wanted;
  for (int k = 0; tried && k < most_hasty_sequences; ++k) {
    costs.find_quickly(tried->stages, std::max(0.0, seconds_left_for_stages(task)));
    bool is_complete = true;
    for (const StageChoice& stage : tried->stages) {
      if (costs.cost(stage) < assignment::impossible) continue;
      left.stage(stage.size, stage.begin, stage.end) = assignment::impossible;
      is_complete = false;
    }
    if (is_complete || best_known(costs, problem, task.pipeline.epsilon)) return;
    leave_out_refused(left, costs);  // those that are like them, too
    tried = best_sequence(left);
  }
}

/// No sequence of stages that have plans is left: says which stage has none.
[[noreturn]] void refuse(const StageCosts& costs, SequenceProblem problem) {
  set_prices(problem, costs, &StageCosts::certain_bound);
  const auto possible = best_sequence(problem);
  const double bound = possible ? in_seconds(possible->lower_bound) : infinity;
  for (int length = problem.layers; length > 0; --length) {
    for (int begin = 0; begin + length <= problem.layers; ++begin) {
      for (int size = static_cast<int>(problem.sizes.size()); size-- > 0;) {
        const std::string refusal = costs.refusal({begin, begin + length, size});
        if (refusal.empty()) continue;
        const graph::StageGraph stage = costs.cut(begin, begin + length);
        throw NoPipelineFits(
            fmt::format(
                "no pipeline{} fits{}: a stage from '{}' to '{}' on {} devices: {}",
                problem.stage_count > 0 ? fmt::format(" of {} stages", problem.stage_count) : "",
                possible ? ", as far as the time limit let see (--time-limit)" : "",
                stage.graph.nodes.front().name, stage.graph.nodes.back().name, problem.sizes[size],
                refusal),
            bound);
      }
    }
  }
  throw NoPipelineFits(
      possible ? "no pipeline was found that fits the memory limit, as far as the time limit let "
                 "see: raise --memory or --time-limit"
               : "no pipeline fits the memory limit: raise --memory or add devices",
      bound);
}

/// A sequence of stages that have plans, and what no sequence can cost less than.
struct Found {
  StageSequence best;
  assignment::Cost bound = 0;
};

Found find_best(const PipelineTask& task, StageCosts& costs, SequenceProblem problem) {
  const double epsilon = task.pipeline.epsilon;
  const auto is_close = [&](assignment::Cost cost, assignment::Cost bound) {
    return static_cast<double>(cost) <= (1 + epsilon) * static_cast<double>(bound);
  };
  std::optional<StageSequence> best;
  assignment::Cost bound = 0;
  int searches = 0;
  if (task.devices() > devices_worth_coarseness && epsilon > 0)
    problem.epsilon = std::max(epsilon, coarse_epsilon);
  while (true) {
    set_prices(problem, costs, &StageCosts::lower_bound);
    const auto wanted = best_sequence(problem);
    if (!wanted) refuse(costs, problem);
    bound = std::max(bound, wanted->lower_bound);
    const bool is_settled = std::ranges::all_of(
        wanted->stages, [&](const StageChoice& stage) { return costs.is_settled(stage); });
    if (is_settled && problem.epsilon > epsilon) {
      problem.epsilon = epsilon;  // it has been looked for coarsely until here
      continue;
    }
    if (is_settled || seconds_left_for_stages(task) <= 0 || was_interrupted()) {
      find_quickly(task, costs, problem, *wanted);
      best = best_known(costs, problem, epsilon);
      if (!best) refuse(costs, problem);
      break;
    }
    if (costs.searches() > searches) {
      searches = costs.searches();
      best = best_known(costs, problem, epsilon);
      if (best && is_close(best->cost, bound)) break;
    }
    costs.advance(wanted->stages, seconds_left_for_stages(task));
  }
  if (!costs.is_certain()) {
    set_prices(problem, costs, &StageCosts::certain_bound);
    const auto certain = best_sequence(problem);
    bound = certain ? certain->lower_bound : best->cost;
  }
  return {*best, std::min(bound, best->cost)};
}

plan::PipelinePlan plan_of(const PipelineTask& task, const StageCosts& costs,
                           const SequenceProblem& problem, const StageSequence& sequence) {
  plan::PipelinePlan result;
  result.microbatches = task.pipeline.microbatches;
  result.objective = task.pipeline.objective;
  for (std::size_t s = 0; s < sequence.stages.size(); ++s) {
    const StageChoice& choice = sequence.stages[s];
    plan::StagePlan& stage = result.stages.emplace_back();
    stage.stage = costs.cut(choice.begin, choice.end);
    stage.first_rank = choice.first_rank;
    stage.plan = costs.plan(choice);
    if (s + 1 < sequence.stages.size()) {
      const StageChoice& next = sequence.stages[s + 1];
      const assignment::Cost transfer =
          problem.transfer(next.first_rank % problem.devices_per_node == 0, choice.end,
                           std::min(choice.size, next.size));
      stage.transfer_seconds = in_seconds(transfer);
    }
  }
  result.predicted = plan::pipeline_prediction(result);
  return result;
}

/// The best pipeline of stages, without the plan of the whole model. Throws as search_pipeline, and
/// NoPipelineFits.
FoundPipeline search_stages(const PipelineTask& task) {
  const graph::StageCutter cutter(task.microbatch);
  const LayerCuts cuts = layers_of(task, cutter);
  const std::vector<Submesh> shapes = submeshes(task.devices(), task.device(), task.pipeline.mesh);
  const SequenceProblem problem = empty_problem(task, cutter, cuts, shapes);
  require_possible_count(task, problem);
  SearchOptions options = task.options;
  options.microbatches = task.pipeline.microbatches;
  StageCosts costs(find_stage_facts(task.microbatch, cutter, cuts, task.device(), shapes, options));
  const auto [best, bound] = find_best(task, costs, problem);
  FoundPipeline found{plan_of(task, costs, problem, best), {}};
  found.report = {
      .method = options.method,
      .search_seconds = task.stopwatch.seconds(),
      .glpk_seconds = costs.glpk_seconds(),
      .lower_bound_seconds = std::min(found.plan.predicted.cost_seconds, in_seconds(bound)),
      .proven_optimal = bound == best.cost,
      .bound_is_searched = options.method == SearchMethod::ilp,
      .epsilon = task.pipeline.epsilon,
      .layers = costs.layers(),
      .stages_searched = costs.searches()};
  return found;
}

/// The outcome of the search among one kind of plans: the whole model's, or stages'.
struct Outcome {
  std::optional<FoundPipeline> found = std::nullopt;
  double lower_bound_seconds = infinity;  ///< where there is no plan; infinite if none fits

  double bound() const { return found ? found->report.lower_bound_seconds : lower_bound_seconds; }
  bool is_proven() const {
    return found ? found->report.proven_optimal : lower_bound_seconds == infinity;
  }
};

FoundPipeline one_stage(const PipelineTask& task, const graph::Graph& graph, int microbatches,
                        SearchOptions options) {
  options.microbatches = microbatches;
  SolvedPlan solved = search_meshes(graph, task.meshes, options);
  FoundPipeline found{plan::one_stage_plan(graph, std::move(solved.plan)),
                      std::move(solved.report)};
  found.plan.microbatches = microbatches;
  found.plan.objective = task.pipeline.objective;
  found.plan.predicted.cost_seconds = plan::pipeline_seconds(found.plan);
  found.plan.predicted.communication_seconds *= microbatches;
  found.report.lower_bound_seconds *= microbatches;
  for (MeshTrial& trial : found.report.meshes) {
    if (trial.cost_seconds) *trial.cost_seconds *= microbatches;
    trial.lower_bound_seconds *= microbatches;
  }
  found.report.search_seconds = task.stopwatch.seconds();
  return found;
}

/// Whether it is proven that every plan of the whole model takes longer, whatever memory it needs.
bool is_below_the_whole(const PipelineTask& task, double seconds) {
  if (least_seconds_on(task.devices(), task.whole, task.device()) > seconds) return true;
  if (task.options.method != SearchMethod::ilp || !task.options.pins.empty()) return false;
  const auto has_many_axes = [](const cost::CostModel& each) {
    return each.mesh().num_axes() > most_axes_of_bound;
  };
  if (std::ranges::any_of(task.meshes, has_many_axes)) return false;
  const auto is_over = [&] { return task.seconds_left() <= 0 || was_interrupted(); };
  SearchOptions options = task.options;
  options.memory = MemoryPolicy::unlimited();
  return std::ranges::all_of(task.meshes, [&](const cost::CostModel& mesh) {
    if (is_over()) return false;
    assignment::AssignmentProblem problem = build_plan_problem(task.whole, mesh, options).problem;
    problem.usage_limits.clear();
    if (is_over()) return false;
    const double share = task.seconds_left() / static_cast<double>(task.meshes.size() + 1);
    const assignment::Solution solution =
        solve(problem, {.time_limit_seconds = std::max(0.0, share), .patience_seconds = 1});
    return in_seconds(solution.lower_bound) > seconds;
  });
}

/// The cheaper one, of equals the whole model's. Its bound is for both.
FoundPipeline better_of(const PipelineTask& task, Outcome whole, Outcome staged) {
  const double bound = std::min(whole.bound(), staged.bound());
  const bool are_proven = whole.is_proven() && staged.is_proven();
  const bool keeps_whole =
      whole.found && (!staged.found || whole.found->plan.predicted.cost_seconds <=
                                           staged.found->plan.predicted.cost_seconds);
  FoundPipeline& best = keeps_whole ? *whole.found : *staged.found;
  if (whole.found && staged.found) {
    const SearchReport& in_one = whole.found->report;
    const SearchReport& in_stages = staged.found->report;
    const bool is_searched = in_one.bound_is_searched && in_stages.bound_is_searched;
    const double glpk_seconds = in_one.glpk_seconds + in_stages.glpk_seconds;
    best.report.bound_is_searched = is_searched;
    best.report.glpk_seconds = glpk_seconds;
    best.report.epsilon = in_stages.epsilon;
    best.report.layers = in_stages.layers;
    best.report.stages_searched = in_stages.stages_searched;
  }
  const double cost_seconds = best.plan.predicted.cost_seconds;
  best.report.proven_optimal = bound >= cost_seconds || are_proven;
  best.report.lower_bound_seconds =
      best.report.proven_optimal ? cost_seconds : std::min(bound, cost_seconds);
  best.report.search_seconds = task.stopwatch.seconds();
  return std::move(best);
}

/// Stages first: often they are better than any plan of the whole model can be.
FoundPipeline with_open_count(const PipelineTask& task) {
  Outcome staged;
  try {
    staged.found = search_stages(task);
  } catch (const NoPipelineFits& error) {  // the whole model may, or says best what it needs
    staged.lower_bound_seconds = error.lower_bound_seconds;
  }
  if (staged.found && is_below_the_whole(task, staged.found->plan.predicted.cost_seconds))
    return std::move(*staged.found);
  SearchOptions options = task.options;
  options.warns = false;
  options.time_limit_seconds = std::max(0.0, task.seconds_left());
  Outcome whole;
  try {
    whole.found = one_stage(task, task.whole, 1, options);
  } catch (const NothingFits& error) {
    if (!staged.found)
      throw NothingFits(error.what(), error.least_bytes, error.is_proven && staged.is_proven());
    if (!error.is_proven)
      whole.lower_bound_seconds = least_seconds_on(task.devices(), task.whole, task.device());
  }
  return better_of(task, std::move(whole), std::move(staged));
}

void require_enough_devices(const PipelineTask& task) {
  const PipelineOptions& pipeline = task.pipeline;
  if (pipeline.stages > task.devices()) {
    fail("--stages {}: there are {} devices, and a stage needs one: use at most {} stages",
         pipeline.stages, task.devices(), task.devices());
  }
  const auto nodes = static_cast<int>(task.microbatch.nodes.size());
  const graph::StageCutter cutter(task.microbatch);
  const auto parts = static_cast<int>(possible_cuts(task.microbatch, cutter).size());
  if (parts < nodes && pipeline.stages > parts) {
    fail(
        "--stages {}: the model can be cut into {} at most, since a state's output and what reads "
        "its input are in one stage: use fewer stages, or --loop none",
        pipeline.stages, parts);
  }
  const int most = pipeline.layers > 0 ? std::min(pipeline.layers, nodes) : nodes;
  if (pipeline.stages > most) {
    fail("--stages {}: the model has {} {}, and a stage needs one: use at most {} stages",
         pipeline.stages, most, most == nodes ? "operators" : "layers", most);
  }
}

FoundPipeline search(const PipelineTask& task) {
  const PipelineOptions& pipeline = task.pipeline;
  if (pipeline.stages == 1 || task.microbatch.nodes.empty())
    return one_stage(task, task.microbatch, pipeline.microbatches, task.options);
  require_enough_devices(task);
  Problems problems;
  check_names(task.options.pins, task.microbatch, problems);
  problems.throw_if_any();
  if (pipeline.stages == 0 && task.devices() == 1 && pipeline.microbatches == 1)
    return one_stage(task, task.whole, 1, task.options);
  if (task.options.warns) warn_of_missing_rules(task.microbatch);
  return pipeline.stages == 0 ? with_open_count(task) : search_stages(task);
}

}  // namespace

FoundPipeline search_pipeline(const graph::Graph& whole, const graph::Graph& microbatch,
                              std::span<const cost::CostModel> meshes, const SearchOptions& options,
                              const PipelineOptions& pipeline) {
  require(!meshes.empty(), "a search has a mesh");
  require(pipeline.stages >= 0 && pipeline.microbatches > 0 && pipeline.epsilon >= 0,
          "a pipeline has stages and microbatches");
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best so far will do
  const PipelineTask task{whole, microbatch, meshes, options, pipeline};
  FoundPipeline found = search(task);
  found.report.one_device_seconds = least_seconds_on(1, whole, task.device());
  found.report.one_device_bytes = bytes_on_one_device(whole);
  return found;
}

}  // namespace autopar::search
