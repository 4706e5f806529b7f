#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "model_options.h"
#include "partition/lowering.h"
#include "summary.h"

namespace autopar {

namespace {

struct PlanCommand {
  ModelOptions model;
  PlanOptions plan;
  bool json = false;

  void run() const {
    const cost::CostModel cost = make_cost_model(plan);
    const search::SearchOptions options = make_search_options(plan);
    const graph::Graph graph = load_model(model, /*weights_may_be_absent=*/true);
    const search::Plan found = find_plan(graph, cost, options);
    if (json) {
      fmt::print("{}\n", search::plan_json(graph, found));
      return;
    }
    const partition::Program program = partition::lower(graph, found, cost.step_price());
    fmt::print("{}", plan_summary(found, partition::collective_totals(graph, found.mesh, program)));
  }
};

}  // namespace

void add_plan_command(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* sub = app.add_subcommand("plan", "Search for a plan without writing shards");
  command->model.add_to(*sub);
  command->plan.add_to(*sub);
  sub->add_flag("--json", command->json, "Print the plan as plan.json has it");
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
