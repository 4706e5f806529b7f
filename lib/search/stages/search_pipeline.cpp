// The search is lazy and exact: every run of layers on every submesh begins with a lower bound
// (stage_costs.h), the dynamic program (stage_sequence.h) takes bounds for costs, and those stages
// that it chooses are looked at more closely. When all stages that it chooses have their exact
// costs, no other sequence can be better, since bounds only rise.

#include "search/stages/search_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "assignment/saturating.h"
#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "cost/transfer_cost.h"
#include "search/operator_bound.h"
#include "search/plan_builder.h"
#include "search/search_meshes.h"
#include "search/stages/stage_sequence.h"
#include "search/stages/submeshes.h"

namespace autopar::search {

namespace {

/// Of the sequences that say what to look at next, where there are so many devices that it matters.
constexpr double coarse_epsilon = 0.01;
constexpr int devices_worth_coarseness = 256;
/// Of the time, for the plan of the whole model where stages may be better.
constexpr double share_of_whole = 0.4;

/// With more axes than so many, a mesh's bound takes as long as the search of it.
constexpr int most_axes_of_bound = 3;
/// Sequences that are tried by the quick method where the time is over.
constexpr int most_hasty_sequences = 10;
constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// No pipeline was found that fits.
struct NoPipelineFits : NothingFits {
  NoPipelineFits(const std::string& message, double bound)
      : NothingFits(message, std::numeric_limits<std::int64_t>::max(), bound == infinity),
        lower_bound_seconds(bound) {}
  double lower_bound_seconds;  ///< no pipeline takes less; infinite where none fits
};

/// What came of the search of one kind of plans.
struct Outcome {
  std::optional<plan::PipelinePlan> plan = std::nullopt;
  double lower_bound_seconds = infinity;  ///< where there is no plan; infinite if none fits

  double bound() const { return plan ? plan->summary.lower_bound_seconds : lower_bound_seconds; }
  bool is_proven() const {
    return plan ? plan->summary.proven_optimal : lower_bound_seconds == infinity;
  }
};

class PipelineSearch {
 public:
  PipelineSearch(const graph::Graph& whole, const graph::Graph& microbatch,
                 const cost::DeviceModel& device, std::span<const cost::CostModel> meshes,
                 const SearchOptions& options, const PipelineOptions& pipeline)
      : whole_(whole),
        microbatch_(microbatch),
        device_(device),
        meshes_(meshes),
        options_(options),
        pipeline_(pipeline),
        devices_(meshes.front().mesh().num_devices()) {}

  plan::PipelinePlan run() {
    if (pipeline_.stages == 1 || microbatch_.nodes.empty()) return one_stage_for_microbatches();
    require_enough_devices();
    Pins(options_.pins, microbatch_);  // throws for one that names nothing
    if (pipeline_.stages == 0 && devices_ == 1 && pipeline_.microbatches == 1)
      return one_stage_for_the_whole(options_);
    if (options_.warns) warn_of_missing_rules(microbatch_);
    std::optional<plan::PipelinePlan> best =
        pipeline_.stages == 0 ? with_open_count() : in_stages();
    return std::move(*best);
  }

 private:
  double seconds_left() const { return options_.time_limit_seconds - stopwatch_.seconds(); }
  /// For stages: where the whole model in one stage may follow, it has its share.
  double seconds_left_for_stages() const {
    const double share = pipeline_.stages == 0 ? share_of_whole : 0;
    return seconds_left() - share * options_.time_limit_seconds;
  }
  bool is_over() const { return seconds_left_for_stages() <= 0 || was_interrupted(); }
  bool is_over_for_all() const { return seconds_left() <= 0 || was_interrupted(); }

  /// Stages first: often they are better than any plan of the whole model can be.
  plan::PipelinePlan with_open_count() {
    Outcome staged;
    try {
      staged.plan = in_stages();
    } catch (const NoPipelineFits& error) {  // the whole model may, or says best what it needs
      staged.lower_bound_seconds = error.lower_bound_seconds;
    }
    if (staged.plan && is_below_the_whole(staged.plan->summary.cost_seconds))
      return std::move(*staged.plan);
    SearchOptions options = options_;
    options.warns = false;
    options.time_limit_seconds = std::max(0.0, seconds_left());
    Outcome whole;
    try {
      whole.plan = one_stage_for_the_whole(options);
    } catch (const NothingFits& error) {
      if (!staged.plan)
        throw NothingFits(error.what(), error.least_bytes, error.is_proven && staged.is_proven());
      if (!error.is_proven) whole.lower_bound_seconds = least_seconds_on(devices_, whole_, device_);
    }
    return better_of(std::move(whole), std::move(staged));
  }

  /// Whether it is proven that every plan of the whole model takes longer, whatever memory it may
  /// need.
  bool is_below_the_whole(double seconds) const {
    if (least_seconds_on(devices_, whole_, device_) > seconds) return true;
    if (options_.method != SearchMethod::ilp || !options_.pins.empty()) return false;
    const auto has_many_axes = [](const cost::CostModel& each) {
      return each.mesh().num_axes() > most_axes_of_bound;
    };
    if (std::ranges::any_of(meshes_, has_many_axes)) return false;
    SearchOptions options = options_;
    options.memory = {MemoryPolicy::Kind::bytes, std::int64_t{1} << 60};  // none is looked at
    return std::ranges::all_of(meshes_, [&](const cost::CostModel& mesh) {
      if (is_over_for_all()) return false;
      assignment::AssignmentProblem problem = build_plan_problem(whole_, mesh, options).problem;
      problem.usage_limits.clear();
      if (is_over_for_all()) return false;
      const double share = seconds_left() / static_cast<double>(meshes_.size() + 1);
      const assignment::Solution solution =
          solve(problem, {.time_limit_seconds = std::max(0.0, share), .patience_seconds = 1});
      return static_cast<double>(solution.lower_bound) * seconds_per_cost > seconds;
    });
  }

  // One stage

  plan::PipelinePlan one_stage(const graph::Graph& graph, int microbatches, plan::Plan plan) const {
    plan::PipelinePlan result;
    result.microbatches = microbatches;
    result.objective = pipeline_.objective;
    result.summary = plan.summary;
    plan::StagePlan& stage = result.stages.emplace_back();
    stage.stage = graph::whole_stage(graph);
    stage.plan = std::move(plan);
    result.summary.cost_seconds = plan::pipeline_seconds(result);
    result.summary.lower_bound_seconds *= microbatches;
    result.summary.communication_seconds *= microbatches;
    for (plan::MeshTrial& trial : result.summary.meshes) {
      if (trial.cost_seconds) *trial.cost_seconds *= microbatches;
      trial.lower_bound_seconds *= microbatches;
    }
    result.summary.search_seconds = stopwatch_.seconds();
    return result;
  }

  plan::PipelinePlan one_stage_for_the_whole(const SearchOptions& options) const {
    return one_stage(whole_, 1, search_meshes(whole_, meshes_, options).plan);
  }

  plan::PipelinePlan one_stage_for_microbatches() {
    SearchOptions options = options_;
    options.microbatches = pipeline_.microbatches;
    plan::PipelinePlan result = one_stage(microbatch_, pipeline_.microbatches,
                                          search_meshes(microbatch_, meshes_, options).plan);
    result.summary.one_device_seconds = least_seconds_on(1, whole_, device_);
    result.summary.one_device_bytes = bytes_on_one_device(whole_);
    return result;
  }

  // Several

  void require_enough_devices() const {
    if (pipeline_.stages > devices_) {
      fail("--stages {}: there are {} devices, and a stage needs one: use at most {} stages",
           pipeline_.stages, devices_, devices_);
    }
    const auto nodes = static_cast<int>(microbatch_.nodes.size());
    const int most = pipeline_.layers > 0 ? std::min(pipeline_.layers, nodes) : nodes;
    if (pipeline_.stages > most) {
      fail("--stages {}: the model has {} {}, and a stage needs one: use at most {} stages",
           pipeline_.stages, most, most == nodes ? "operators" : "layers", most);
    }
  }

  void require_possible_count(const SequenceProblem& problem) const {
    const std::vector<int> counts = possible_stage_counts(problem);
    if (pipeline_.stages == 0 ? !counts.empty()
                              : std::ranges::find(counts, pipeline_.stages) != counts.end())
      return;
    if (counts.empty()) {
      fail("--mesh {}: stages of {} devices do not fill {}: give a mesh whose devices divide them",
           to_string(*pipeline_.mesh), pipeline_.mesh->num_devices(), devices_);
    }
    std::string known;
    for (const int count : counts) known += (known.empty() ? "" : ", ") + std::to_string(count);
    fail("--stages {}: {} devices cannot be cut into so many{}: {} would do", pipeline_.stages,
         devices_, pipeline_.mesh ? " of mesh " + to_string(*pipeline_.mesh) : "", known);
  }

  std::optional<plan::PipelinePlan> in_stages() {
    const graph::StageCutter cutter(microbatch_);
    const int one[] = {1};
    const std::vector<double> work = least_operator_seconds(one, microbatch_, device_).front();
    const int layers = pipeline_.layers > 0 ? std::max(pipeline_.layers, pipeline_.stages) : 0;
    LayerCuts cuts = cluster_layers(microbatch_, cutter, work, layers);
    if (static_cast<int>(cuts.size()) - 1 < pipeline_.stages)
      cuts = cluster_layers(microbatch_, cutter, work, pipeline_.stages);
    const std::vector<Submesh> shapes = submeshes(devices_, device_, pipeline_.mesh);
    SequenceProblem problem = empty_problem(cutter, cuts, shapes);
    require_possible_count(problem);
    SearchOptions options = options_;
    options.microbatches = pipeline_.microbatches;
    StageCosts costs(microbatch_, cutter, std::move(cuts), device_, shapes, options);
    return search(costs, std::move(problem));
  }

  SequenceProblem empty_problem(const graph::StageCutter& cutter, const LayerCuts& cuts,
                                const std::vector<Submesh>& shapes) const {
    SequenceProblem problem;
    problem.layers = static_cast<int>(cuts.size()) - 1;
    problem.devices = devices_;
    problem.devices_per_node = devices_of_a_node(devices_, device_);
    for (const Submesh& shape : shapes) problem.sizes.push_back(shape.devices);
    problem.microbatches = pipeline_.microbatches;
    problem.objective = pipeline_.objective;
    problem.stage_count = pipeline_.stages;
    problem.epsilon = pipeline_.epsilon;
    problem.allocate();
    for (int cut = 1; cut < problem.layers; ++cut) {
      for (const bool node_begins : {false, true}) {
        // Where there are no nodes, or one, no boundary is between two.
        if (node_begins && problem.devices_per_node == devices_) continue;
        const cost::Link& link =
            cost::boundary_link(device_, node_begins ? problem.devices_per_node : 1);
        for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
          problem.transfer(node_begins, cut, size) =
              transfer(cutter, cuts[at(cut)], problem.sizes[at(size)], link);
        }
      }
    }
    return problem;
  }

  assignment::Cost transfer(const graph::StageCutter& cutter, graph::NodeId cut, int devices,
                            const cost::Link& link) const {
    double seconds = 0;
    for (const graph::ValueId id : cutter.crossing(cut)) {
      const graph::Value& value = microbatch_.value(id);
      const auto bytes = graph::bytes_of(value.type, graph::num_elements(value.shape));
      seconds += cost::transfer_seconds(bytes, devices, devices, link);
    }
    return picoseconds(seconds, "what crosses between two stages");
  }

  using Price = assignment::Cost (StageCosts::*)(int, int, int) const;
  static void set_prices(SequenceProblem& problem, const StageCosts& costs, Price price) {
    for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
      for (int begin = 0; begin < problem.layers; ++begin) {
        for (int end = begin + 1; end <= problem.layers; ++end)
          problem.stage(size, begin, end) = (costs.*price)(size, begin, end);
      }
    }
  }

  std::optional<plan::PipelinePlan> search(StageCosts& costs, SequenceProblem problem) {
    std::optional<StageSequence> best;  // of plans that are known
    assignment::Cost bound = 0;
    int searches = 0;
    if (devices_ > devices_worth_coarseness && pipeline_.epsilon > 0)
      problem.epsilon = std::max(pipeline_.epsilon, coarse_epsilon);
    while (true) {
      set_prices(problem, costs, &StageCosts::lower_bound);
      const auto wanted = best_sequence(problem);
      if (!wanted) refuse(costs, problem);
      bound = std::max(bound, wanted->lower_bound);
      const bool is_settled = std::ranges::all_of(wanted->stages, [&](const StageChoice& stage) {
        return costs.is_settled(stage.size, stage.begin, stage.end);
      });
      if (is_settled && problem.epsilon > pipeline_.epsilon) {
        problem.epsilon = pipeline_.epsilon;  // it has been looked for coarsely until here
        continue;
      }
      if (is_settled || is_over()) {
        find_quickly(costs, problem, *wanted);
        best = best_known(costs, problem);
        if (!best) refuse(costs, problem);
        break;
      }
      if (costs.searches() > searches) {
        searches = costs.searches();
        best = best_known(costs, problem);
        if (best && is_close(best->cost, bound)) break;
      }
      costs.advance(wanted->stages, seconds_left_for_stages());
    }
    if (!costs.is_certain()) {
      set_prices(problem, costs, &StageCosts::certain_bound);
      const auto certain = best_sequence(problem);
      bound = certain ? certain->lower_bound : best->cost;
    }
    return described(costs, problem, *best, std::min(bound, best->cost));
  }

  /// Plans for a sequence that bounds have chosen. Where it has stages that the quick method finds
  /// no plan for, either, for the best one without these, unless plans of another are known.
  void find_quickly(StageCosts& costs, const SequenceProblem& problem,
                    const StageSequence& wanted) const {
    SequenceProblem left = problem;
    std::optional<StageSequence> tried = wanted;
    for (int k = 0; tried && k < most_hasty_sequences; ++k) {
      costs.find_quickly(tried->stages, std::max(0.0, seconds_left_for_stages()));
      bool is_complete = true;
      for (const StageChoice& stage : tried->stages) {
        if (costs.cost(stage.size, stage.begin, stage.end) < assignment::impossible) continue;
        left.stage(stage.size, stage.begin, stage.end) = assignment::impossible;
        is_complete = false;
      }
      if (is_complete || best_known(costs, problem)) return;
      leave_out_refused(left, costs);  // what is like those
      tried = best_sequence(left);
    }
  }

  /// Of stages that have plans.
  std::optional<StageSequence> best_known(const StageCosts& costs, SequenceProblem problem) const {
    problem.epsilon = pipeline_.epsilon;
    set_prices(problem, costs, &StageCosts::cost);
    return best_sequence(problem);
  }

  static void leave_out_refused(SequenceProblem& problem, const StageCosts& costs) {
    for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
      for (int begin = 0; begin < problem.layers; ++begin) {
        for (int end = begin + 1; end <= problem.layers; ++end) {
          if (problem.stage(size, begin, end) < assignment::impossible &&
              !costs.refusal(size, begin, end).empty())
            problem.stage(size, begin, end) = assignment::impossible;
        }
      }
    }
  }

  /// By epsilon.
  bool is_close(assignment::Cost cost, assignment::Cost bound) const {
    return static_cast<double>(cost) <= (1 + pipeline_.epsilon) * static_cast<double>(bound);
  }

  /// No sequence of stages that have plans is left: says which stage has none. Never returns.
  [[noreturn]] void refuse(const StageCosts& costs, SequenceProblem problem) const {
    set_prices(problem, costs, &StageCosts::certain_bound);
    const auto possible = best_sequence(problem);
    const double bound =
        possible ? static_cast<double>(possible->lower_bound) * seconds_per_cost : infinity;
    for (int length = problem.layers; length > 0; --length) {
      for (int begin = 0; begin + length <= problem.layers; ++begin) {
        for (int size = static_cast<int>(problem.sizes.size()); size-- > 0;) {
          const std::string refusal = costs.refusal(size, begin, begin + length);
          if (refusal.empty()) continue;
          const graph::StageGraph stage = costs.cut(begin, begin + length);
          throw NoPipelineFits(
              fmt::format(
                  "no pipeline{} fits{}: a stage from '{}' to '{}' on {} devices: {}",
                  problem.stage_count > 0 ? fmt::format(" of {} stages", problem.stage_count) : "",
                  possible ? ", as far as the time limit let see (--time-limit)" : "",
                  stage.graph.nodes.front().name, stage.graph.nodes.back().name,
                  problem.sizes[at(size)], refusal),
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

  plan::PipelinePlan described(const StageCosts& costs, const SequenceProblem& problem,
                               const StageSequence& sequence, assignment::Cost bound) const {
    plan::PipelinePlan result;
    result.microbatches = pipeline_.microbatches;
    result.objective = pipeline_.objective;
    plan::PlanSummary& summary = result.summary;
    double communication = 0;
    for (std::size_t s = 0; s < sequence.stages.size(); ++s) {
      const StageChoice& choice = sequence.stages[s];
      plan::StagePlan& stage = result.stages.emplace_back();
      stage.stage = costs.cut(choice.begin, choice.end);
      stage.first_rank = choice.first_rank;
      stage.plan = costs.plan(choice.size, choice.begin, choice.end);
      if (s + 1 < sequence.stages.size()) {
        const StageChoice& next = sequence.stages[s + 1];
        const assignment::Cost transfer =
            problem.transfer(next.first_rank % problem.devices_per_node == 0, choice.end,
                             std::min(choice.size, next.size));
        stage.transfer_seconds = static_cast<double>(transfer) * seconds_per_cost;
      }
      const plan::PlanSummary& own = stage.plan.summary;
      communication += own.communication_seconds + stage.transfer_seconds;
      summary.weight_bytes = std::max(summary.weight_bytes, own.weight_bytes);
      summary.peak_bytes = std::max(summary.peak_bytes, own.peak_bytes);
    }
    summary.search = name_of(options_.method);
    summary.bound_is_searched = options_.method == SearchMethod::ilp;
    summary.cost_seconds = plan::pipeline_seconds(result);
    summary.lower_bound_seconds =
        std::min(summary.cost_seconds, static_cast<double>(bound) * seconds_per_cost);
    summary.proven_optimal = bound == sequence.cost;
    summary.communication_seconds = communication * pipeline_.microbatches;
    summary.one_device_seconds = least_seconds_on(1, whole_, device_);
    summary.one_device_bytes = bytes_on_one_device(whole_);
    summary.glpk_seconds = costs.glpk_seconds();
    summary.search_seconds = stopwatch_.seconds();
    summary.epsilon = pipeline_.epsilon;
    summary.layers = costs.layers();
    summary.stages_searched = costs.searches();
    return result;
  }

  /// Of equals the whole model's. Its bound is for both.
  plan::PipelinePlan better_of(Outcome whole, Outcome staged) const {
    const double bound = std::min(whole.bound(), staged.bound());
    const bool are_proven = whole.is_proven() && staged.is_proven();
    const std::optional<plan::PlanSummary> in_one = summary_of(whole);
    const std::optional<plan::PlanSummary> in_stages = summary_of(staged);
    const bool keeps_whole =
        in_one && (!in_stages || in_one->cost_seconds <= in_stages->cost_seconds);
    plan::PipelinePlan& best = keeps_whole ? *whole.plan : *staged.plan;
    plan::PlanSummary& summary = best.summary;
    summary.proven_optimal = bound >= summary.cost_seconds || are_proven;
    summary.lower_bound_seconds =
        summary.proven_optimal ? summary.cost_seconds : std::min(bound, summary.cost_seconds);
    summary.search_seconds = stopwatch_.seconds();
    if (in_one && in_stages) {
      summary.bound_is_searched = in_one->bound_is_searched && in_stages->bound_is_searched;
      summary.glpk_seconds = in_one->glpk_seconds + in_stages->glpk_seconds;
      summary.epsilon = in_stages->epsilon;
      summary.layers = in_stages->layers;
      summary.stages_searched = in_stages->stages_searched;
    }
    return std::move(best);
  }

  static std::optional<plan::PlanSummary> summary_of(const Outcome& outcome) {
    return outcome.plan ? std::optional(outcome.plan->summary) : std::nullopt;
  }

  const InterruptionGuard guard_{SIGINT};  ///< Ctrl-C: the best so far will do
  const Stopwatch stopwatch_;
  const graph::Graph& whole_;
  const graph::Graph& microbatch_;
  const cost::DeviceModel& device_;
  const std::span<const cost::CostModel> meshes_;
  const SearchOptions& options_;
  const PipelineOptions& pipeline_;
  const int devices_;
};

}  // namespace

plan::PipelinePlan search_pipeline(const graph::Graph& whole, const graph::Graph& microbatch,
                                   const cost::DeviceModel& device,
                                   std::span<const cost::CostModel> meshes,
                                   const SearchOptions& options, const PipelineOptions& pipeline) {
  require(!meshes.empty(), "a search has a mesh");
  require(pipeline.stages >= 0 && pipeline.microbatches > 0 && pipeline.epsilon >= 0,
          "a pipeline has stages and microbatches");
  return PipelineSearch(whole, microbatch, device, meshes, options, pipeline).run();
}

}  // namespace autopar::search
