#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "explanation_text.h"
#include "model_options.h"
#include "plan_report.h"
#include "planner/write_bundle.h"
#include "progress.h"
#include "simulated_trace.h"
#include "summary.h"

namespace autopar {

namespace {

struct PlanCommand {
  ModelOptions model;
  PlanOptions plan;
  bool json = false;
  std::string explain;                           ///< an operator's name or a glob; empty for none
  std::vector<std::filesystem::path> compare{};  ///< two, or none
  std::filesystem::path simulate{};              ///< the trace to write; empty for none

  void run() const {
    if (!compare.empty()) return print_comparison();
    auto [meshes, options] = make_search_setup(plan, model, [&] {
      if (!simulate.empty() && explain.empty()) runtime::check_trace_file(simulate, "--simulate");
    });
    const BatchedModel loaded = load_batched_model(model, plan, /*weights_may_be_absent=*/true);
    fit_to_model(meshes, loaded.whole);
    if (!explain.empty()) return print_explanation(loaded, meshes, options);
    const plan::PipelinePlan found = find_plan(loaded, plan, meshes, options);
    if (!simulate.empty()) {
      runtime::save_trace(simulate, simulated_spans(found, meshes.front().device()), "--simulate");
    }
    const PlanReport report = make_plan_report(found, meshes.front().device());
    if (json) {
      fmt::print("{}\n", planner::plan_json(found, report.collectives,
                                            loaded.tail ? &*loaded.tail : nullptr));
    } else {
      fmt::print("{}", report_text(found, report));
      if (loaded.tail) fmt::print("{}", tail_text(loaded.tail->summary));
    }
  }

 private:
  void print_explanation(const BatchedModel& loaded, std::span<const cost::CostModel> meshes,
                         const search::SearchOptions& options) const {
    if (!simulate.empty()) fail("--simulate {}: leave it out with --explain", simulate.string());
    if (plan.stages != "1" || plan.microbatches != 1)
      fail("--explain {}: it tells of plans of one stage; leave out --stages and --microbatches",
           explain);
    const graph::Graph& graph = loaded.whole;
    const graph::NodeId node = search::find_operator(graph, explain);  // before a long search
    const search::SolvedPlan solved = find_solved_plan(loaded, meshes, options);
    const cost::CostModel cost(meshes.front().device(), solved.plan.mesh);
    const Progress progress("trying the candidates of " + graph.node(node).name);
    const search::Explanation explanation =
        search::explain_operator(graph, cost, solved, node, options.time_limit_seconds);
    fmt::print("{}", json ? search::explanation_json(graph, explanation) + "\n"
                          : explanation_text(graph, explanation));
  }

  void print_comparison() const {
    const plan::PlanFile a = plan::load_plan_file(compare[0]);
    const plan::PlanFile b = plan::load_plan_file(compare[1]);
    const plan::PlanComparison comparison = plan::compare_plans(a, b);
    fmt::print("{}", json ? plan::comparison_json(a, b, comparison) + "\n"
                          : comparison_text(a, b, comparison));
  }
};

/// Two plan files need neither a model nor options of a search; without them some are required.
class CompareOption {
 public:
  CompareOption(CLI::App& sub, PlanCommand& command)
      : option_(sub.add_option("--compare", command.compare,
                               "Tell two plans apart: two plan.json files, or bundles' folders; "
                               "without a model and --ngpus, which are else required")
                    ->expected(2)) {
    for (CLI::Option* other : sub.get_options()) {
      if (other == option_ || other == sub.get_help_ptr()) continue;
      others_.push_back(other);
      if (other->get_required()) required_.push_back(other);
      other->required(false);
    }
  }

  void check() const {
    const bool compares = option_->count() > 0;
    for (const CLI::Option* other : others_) {
      const bool is_given = other->count() > 0;
      if (compares && is_given) throw CLI::ExcludesError("--compare", other->get_name());
    }
    for (const CLI::Option* required : required_) {
      const bool is_given = required->count() > 0;
      if (!compares && !is_given) throw CLI::RequiredError(required->get_name());
    }
  }

 private:
  CLI::Option* option_;
  std::vector<const CLI::Option*> others_;    ///< that were there before it
  std::vector<const CLI::Option*> required_;  ///< without it
};

}  // namespace

void add_plan_command(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* sub = app.add_subcommand("plan", "Search for a plan without writing shards");
  command->model.add_to(*sub);
  command->plan.add_to(*sub);
  sub->add_option("--explain", command->explain,
                  "Tell of an operator's candidates: a name, or a glob whose first match counts");
  sub->add_option("--simulate", command->simulate,
                  "Play the plan on the cost model and write the trace, as run --profile does");
  const CompareOption compare(*sub, *command);
  sub->add_flag("--json", command->json, "Print JSON, a plan as plan.json has it");
  sub->callback([command, compare] {
    compare.check();
    command->run();
  });
}

}  // namespace autopar
