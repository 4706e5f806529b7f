// No bound, of whatever method and after whatever time, is above any method's plan under the same
// limits.

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "block.h"
#include "graph/onnx/onnx_import.h"
#include "layered_graph.h"
#include "plan_pricing.h"
#include "program/memory_prediction.h"
#include "search/search_meshes.h"
#include "search/search_plan.h"
#include "stages/decoder_sketch.h"

using namespace autopar;
using search::MemoryPolicy;
using search::SearchMethod;

namespace {

struct Model {
  std::string name;
  graph::Graph graph;
};

graph::Graph load_tiny(const std::string& name) {
  const std::string folder = std::string(AUTOPAR_SOURCE_DIR) + "/models/tiny/" + name;
  return graph::load_onnx(folder + "/model.onnx", {});
}

std::vector<Model> models() {
  Random random(41);
  std::vector<Model> all{{"block", block(256, 64, 128)},
                         {"long block", block(4096, 64, 512)},
                         {"decoder", decoder(64)},
                         {"mlp", load_tiny("mlp-dynamo")},
                         {"layers", LayeredGraph(random).grow(3, 3)}};
  for (int k = 0; k < 2; ++k)
    all.push_back({"random " + std::to_string(k), RandomGraph(random).grow(2)});
  return all;
}

/// What the searches of one problem have said.
struct Told {
  double highest_bound = 0;
  std::string by_bound;
  double least_cost = std::numeric_limits<double>::infinity();
  std::string by_cost;
  std::int64_t largest_peak = 0;
  bool is_infeasible = false;  ///< proven by somebody
  int plans = 0;

  void add_bound(double seconds, const std::string& by) {
    if (seconds <= highest_bound) return;
    highest_bound = seconds;
    by_bound = by;
  }
  void add_plan(const plan::Plan& plan, const std::string& by) {
    ++plans;
    largest_peak = std::max(largest_peak, plan.predicted.peak_bytes);
    if (plan.predicted.cost_seconds >= least_cost) return;
    least_cost = plan.predicted.cost_seconds;
    by_cost = by;
  }
};

/// All methods, with and without a searched bound, in no time and in some.
Told ask_all(const graph::Graph& graph, const cost::CostModel& cost,
             search::SearchOptions options) {
  Told told;
  for (const SearchMethod method :
       {SearchMethod::ilp, SearchMethod::recursive, SearchMethod::propagation}) {
    for (const bool bound : {false, true}) {
      if (bound && method == SearchMethod::ilp) continue;
      for (const double seconds : {0.0, 1.0}) {
        options.method = method;
        options.bound = bound;
        options.time_limit_seconds = seconds;
        const std::string by = std::string(name_of(method)) + (bound ? " with a bound, " : ", ") +
                               std::to_string(seconds) + " s";
        try {
          const search::SolvedPlan found = search_plan(graph, cost, options);
          told.add_plan(found.plan, by);
          told.add_bound(found.report.lower_bound_seconds, by);
        } catch (const search::NothingFits& error) {
          told.is_infeasible = told.is_infeasible || error.is_proven;
        }
      }
    }
  }
  return told;
}

}  // namespace

TEST_CASE("no bound of any method is above any method's plan under the same limits") {
  int plans = 0;
  int bounds_that_matter = 0;
  for (const Model& model : models()) {
    for (const char* mesh : {"4", "2x2", "2x2x2"}) {
      const cost::CostModel cost = model_of(mesh);
      for (const bool predicts_shards : {false, true}) {
        if (predicts_shards && cost.mesh().num_axes() == 3) continue;
        std::int64_t peak = 0;
        for (const double part : {0.0, -1.0, 0.8}) {  // of the unlimited plans' peak
          search::SearchOptions options = within(part < 0 ? "fair" : "device");
          if (predicts_shards) options.run_bytes = program::most_run_bytes;
          options.warns = false;
          if (part > 0)
            options.memory = {MemoryPolicy::Kind::bytes,
                              std::max<std::int64_t>(
                                  1, static_cast<std::int64_t>(part * static_cast<double>(peak)))};
          const Told told = ask_all(model.graph, cost, options);
          if (part == 0) peak = told.largest_peak;
          CAPTURE(model.name, mesh, predicts_shards, part, told.by_bound, told.by_cost);
          CHECK(told.highest_bound <= told.least_cost);
          if (told.is_infeasible) CHECK(told.plans == 0);
          plans += told.plans;
          bounds_that_matter += told.highest_bound > 0.9 * told.least_cost ? 1 : 0;
        }
      }
    }
  }
  CHECK(plans > 500);
  CHECK(bounds_that_matter > 50);
}
