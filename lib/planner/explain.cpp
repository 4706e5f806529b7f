#include <fmt/format.h>

#include "base/error.h"
#include "planner/device_fit.h"
#include "planner/explanation_text.h"
#include "planner/find_plan.h"
#include "planner/json_text.h"
#include "planner/microbatches.h"
#include "search/explanation.h"

namespace autopar::planner {

std::string explain(const Model& model, const PlanOptions& options, const std::string& op,
                    bool json) {
  if (options.stages != "1" || options.microbatches != 1) {
    fail("--explain {}: it tells of plans of one stage; leave out --stages and --microbatches", op);
  }
  const LoadedModel& loaded = model.contents();
  const graph::Graph& graph = loaded.graph;
  SearchSetup setup = make_search_setup(options);
  discover_missing_rules(options, graph);
  fit_to_model(setup.meshes, graph);
  const graph::NodeId node = search::find_operator(graph, op);  // before a long search
  const search::SolvedPlan solved = find_solved_plan(loaded, setup, options.progress);
  const cost::CostModel cost(setup.meshes.front().device(), solved.plan.mesh);
  const std::shared_ptr<void> shown =
      options.progress ? options.progress("trying the candidates of " + graph.node(node).name)
                       : nullptr;
  const search::Explanation explanation =
      search::explain_operator(graph, cost, solved, node, options.time_limit_seconds);
  if (!json) return explanation_text(graph, explanation);
  return json_text([&] { return search::explanation_json(graph, explanation) + "\n"; });
}

std::string compare(const std::filesystem::path& a, const std::filesystem::path& b, bool json) {
  const plan::PlanFile first = plan::load_plan_file(a);
  const plan::PlanFile second = plan::load_plan_file(b);
  const plan::PlanComparison comparison = plan::compare_plans(first, second);
  return json ? plan::comparison_json(first, second, comparison) + "\n"
              : comparison_text(first, second, comparison);
}

}  // namespace autopar::planner
