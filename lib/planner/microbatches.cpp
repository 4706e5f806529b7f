#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/problems.h"
#include "graph/operators/library_operator.h"
#include "planner/find_plan.h"
#include "runtime/executable.h"
#include "search/pins.h"
#include "sharding/discovery/discovered_rules.h"

namespace autopar::planner {

namespace {

/// The rows of a microbatch: the batch may be no multiple, but none may be left without rows.
std::int64_t microbatch_rows(std::int64_t batch, int microbatches) {
  const std::int64_t rows = (batch + microbatches - 1) / microbatches;
  const std::int64_t filled = rows == 0 ? 0 : (batch + rows - 1) / rows;
  if (filled != microbatches) {
    fail("--microbatches {}: a batch of {} makes {} of {}; give {}", microbatches, batch, filled,
         rows, std::max<std::int64_t>(filled, 1));
  }
  return rows;
}

/// Where the batch is refused, pins that name nothing are told, too.
program::BatchInputs find_batch_or_tell_pins(const graph::Graph& graph, const PlanOptions& plan) {
  program::BatchInputs batch;
  Problems problems;
  const bool is_found = problems.collect([&] { batch = program::find_batch(graph, plan.batch); });
  if (!is_found && !plan.strategy.empty()) {
    const std::vector<search::Pin> pins = search::load_pins(plan.strategy);
    search::Pins(pins, graph, problems);
  }
  problems.throw_if_any();
  return batch;
}

void tell_where_it_is(const program::BatchInputs& batch, const graph::Graph& graph) {
  const auto& [input, dim] = batch.dims.front();
  if (dim > 0)
    spdlog::info("microbatches cut dimension {} of input '{}'", dim, graph.value(input).name);
}

/// The model for a batch of so many rows. Throws Error where it does not allow that.
graph::Graph load_with_batch(const LoadedModel& model, const program::BatchInputs& batch,
                             std::int64_t rows) {
  ModelOptions other = model.options;
  for (const auto& [input, dim] : batch.dims) {
    const graph::Value& value = model.graph.value(input);
    const std::string prefix = value.name + "=";
    std::erase_if(other.shapes, [&](const std::string& text) { return text.starts_with(prefix); });
    graph::Shape shape = value.shape;
    shape[static_cast<std::size_t>(dim)] = rows;
    other.shapes.push_back(prefix + graph::to_string(shape));
  }
  return load_graph(other).graph;
}

/// The model for the batch that is filled up to `rows`, which must compute nothing with its size.
graph::Graph load_filled_up(const LoadedModel& model, const PlanOptions& plan,
                            const program::BatchInputs& batch, std::int64_t rows) {
  graph::Graph filled;
  try {
    filled = load_with_batch(model, batch, rows);
  } catch (const Error&) {
    fail("--microbatches {}: the model is for a batch of {} alone; give a divisor of it",
         plan.microbatches, batch.rows);
  }
  discover_missing_rules(plan, filled);
  if (!program::differ_in_batch_alone(model.graph, filled, batch.rows, rows)) {
    fail(
        "--microbatches {}: the model computes with the size of its batch, {}; give a divisor of "
        "it",
        plan.microbatches, batch.rows);
  }
  return filled;
}

}  // namespace

void discover_missing_rules(const PlanOptions& plan, const graph::Graph& graph) {
  const auto is_wanted = [&plan](const graph::Node& node) {
    const auto* of_library = graph::find_library_operator(node.domain, node.op_type);
    return of_library ? of_library->may_be_split() : plan.discover;
  };
  for (const std::string& reason :
       sharding::discover_rules(graph, runtime::evaluate_constants, is_wanted))
    spdlog::warn("no split is found of {}", reason);
}

program::SplitBatch split_model(const LoadedModel& model, const PlanOptions& plan) {
  if (plan.microbatches == 1) return {.microbatch = model.graph, .ports = {}};
  const program::BatchInputs batch = find_batch_or_tell_pins(model.graph, plan);
  tell_where_it_is(batch, model.graph);
  const std::int64_t filled = microbatch_rows(batch.rows, plan.microbatches) * plan.microbatches;
  // Both graphs are one model's, value by value, so that the batch is in the same place.
  program::SplitBatch split = filled == batch.rows
                                  ? program::split_batch(model.graph, plan.microbatches, batch)
                                  : program::split_batch(load_filled_up(model, plan, batch, filled),
                                                         plan.microbatches, batch);
  discover_missing_rules(plan, split.microbatch);
  return split;
}

}  // namespace autopar::planner
