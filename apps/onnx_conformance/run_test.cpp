#include "run_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/temporary_folder.h"
#include "comparison.h"
#include "forced_plans.h"
#include "graph/onnx/onnx_import.h"
#include "planner/write_bundle.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "search/search_plan.h"
#include "sharding/rewrites/rewrites.h"

namespace autopar::conformance {
namespace {

namespace fs = std::filesystem;

/// A run whose results differ from the expected ones.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Which inputs of a model get their values when it is read.
using IsFixed = std::function<bool(std::size_t input, const graph::Tensor& value)>;

bool none(std::size_t, const graph::Tensor&) { return false; }
/// Axes, sizes, scales: what ONNX's tests pass as inputs and models have as constants.
bool parameters(std::size_t input, const graph::Tensor& value) {
  return input > 0 && value.shape().size() <= 1 && value.elements() <= 64;
}
bool all(std::size_t, const graph::Tensor&) { return true; }

graph::Graph load(const OnnxTest& test, const DataSet& data, const IsFixed& is_fixed) {
  graph::ImportOptions how;
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    const auto& [name, tensor] = data.inputs[i];
    // Symbolic dimensions have the extents of the data.
    if (is_fixed(i, tensor))
      how.constants.emplace(name, tensor);
    else
      how.shapes.emplace(name, tensor.shape());
  }
  graph::Graph graph = graph::load_onnx(test.model(), how);
  sharding::hoist_splits(graph);
  sharding::reshape_whole_gathers(graph);
  return graph;
}

runtime::NamedTensors inputs_of(const graph::Graph& graph, const DataSet& data) {
  runtime::NamedTensors inputs;
  for (const auto& [name, tensor] : data.inputs)
    if (std::ranges::any_of(graph.inputs, [&, &name = name](graph::ValueId id) {
          return graph.value(id).name == name;
        }))
      inputs.emplace(name, tensor);
  return inputs;
}

void check_outputs(const OnnxTest& test, const DataSet& data, const runtime::NamedTensors& found) {
  for (const auto& [name, expected] : data.outputs) {
    const auto output = found.find(name);
    if (output == found.end()) throw WrongResult(fmt::format("output '{}' is missing", name));
    const double absolute =
        test.is_random ? std::numeric_limits<double>::infinity() : test.absolute_tolerance;
    const auto what = difference(expected, output->second, test.relative_tolerance, absolute);
    if (what) throw WrongResult(fmt::format("output '{}': {}", name, *what));
  }
}

void run_forced(const OnnxTest& test, const DataSet& data, const graph::Graph& graph,
                const std::vector<search::Pin>& pins, const TestOptions& options) {
  const cost::DeviceModel device = cost::load_device_model("cpu");
  search::SearchOptions search;
  search.pins = pins;
  search.memory = search::MemoryPolicy::parse("device");
  search.warns = false;
  search.threads = 1;
  search::SolvedPlan solved = search::search_plan(
      graph, cost::CostModel(device, sharding::DeviceMesh({options.ranks})), search);
  const TemporaryFolder folder(options.scratch);
  const fs::path bundle = folder / "bundle";
  const bundle::MetaInfo written = planner::write_bundle(
      graph, {}, {plan::one_stage_plan(graph, std::move(solved.plan)), std::move(solved.report)},
      device, {bundle, "model.onnx", false});
  const runtime::RunResult result =
      runtime::Session(bundle, {.device = options.device, .launch = {.launcher = "none"}})
          .run(inputs_of(graph, data));
  check_outputs(test, data, result.outputs);
  if (bundle::to_json(result.collectives) != bundle::to_json(written.profiles.front().collectives))
    throw WrongResult(fmt::format("communication was predicted as {}, counted as {}",
                                  bundle::to_json(written.profiles.front().collectives).dump(),
                                  bundle::to_json(result.collectives).dump()));
}

/// "Conv: RS0,RR->RS0; ..." of the first operators, for messages.
std::string text_of(const std::vector<search::Pin>& pins) {
  std::string text;
  for (const search::Pin& pin : pins) {
    if (text.size() > 200) return text + "...";
    text += pin.name + ":";
    for (const auto& spec : *pin.inputs) text += " " + to_string(spec);
    text += " ->";
    for (const auto& spec : *pin.outputs) text += " " + to_string(spec);
    text += "; ";
  }
  return text;
}

int run_plans(const OnnxTest& test, const DataSet& data, const IsFixed& is_fixed,
              const TestOptions& options) {
  const graph::Graph graph = load(test, data, is_fixed);
  if (options.ranks == 1) {
    check_outputs(test, data, runtime::run_whole(graph, inputs_of(graph, data), options.device));
    return 1;
  }
  auto plans = forced_plans(graph, sharding::DeviceMesh({options.ranks}));
  if (plans.empty()) plans.emplace_back();  // as the search has it
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      run_forced(test, data, graph, plans[i], options);
    } catch (const WrongResult& wrong) {
      throw WrongResult(fmt::format("plan {} of {} ({}): {}", i + 1, plans.size(),
                                    text_of(plans[i]), wrong.what()));
    } catch (const Error& error) {
      fail("plan {} of {} ({}): {}", i + 1, plans.size(), text_of(plans[i]), error.what());
    }
  }
  return static_cast<int>(plans.size());
}

TestResult run(const OnnxTest& test, const IsFixed& is_fixed, const TestOptions& options) {
  TestResult result;
  result.operators = test.operators;
  result.is_random = test.is_random;
  for (const DataSet& data : test.data_sets) {
    result.plans += run_plans(test, data, is_fixed, options);
    int fixed = 0;
    for (std::size_t i = 0; i < data.inputs.size(); ++i)
      fixed += is_fixed(i, data.inputs[i].second) ? 1 : 0;
    if (fixed <= result.fixed_inputs) continue;
    result.fixed_inputs = fixed;
    result.inputs = static_cast<int>(data.inputs.size());
  }
  return result;
}

TestResult run_with_fixed(const OnnxTest& test, const TestOptions& options) {
  try {
    return run(test, parameters, options);
  } catch (const graph::UnknownShape&) {
    return run(test, all, options);
  }
}

/// Fixes as few inputs as it takes; the result tells which and why.
TestResult run(const OnnxTest& test, const TestOptions& options) {
  std::string refusal;
  try {
    return run(test, none, options);
  } catch (const Error& error) {
    refusal = error.what();
  }
  TestResult result = run_with_fixed(test, options);
  result.fixed_since = refusal;
  return result;
}

/// Each way is refused with an Error, or gives what is expected. What is refused by one may run by
/// another: shapes that depend on an input's values are known where it is fixed.
TestResult run_odd(const OnnxTest& test, const TestOptions& options) {
  TestResult result;
  result.operators = test.operators;
  const auto the_odd_one = [&](std::size_t input, const graph::Tensor&) {
    return input == test.odd_input;
  };
  TestOptions whole = options;
  whole.ranks = 1;
  std::string refusal;
  for (const IsFixed& is_fixed : {IsFixed(none), IsFixed(the_odd_one), IsFixed(all)}) {
    for (const TestOptions& how : {whole, options}) {
      try {
        result.plans += run(test, is_fixed, how).plans;
      } catch (const Error& error) {
        if (std::string_view(error.what()).find("internal error") != std::string_view::npos) throw;
        refusal = error.what();
      } catch (const OutOfMemory& error) {
        refusal = error.what();
      }
      if (options.ranks == 1) break;
    }
  }
  const bool expects = std::ranges::any_of(
      test.data_sets, [](const DataSet& data) { return !data.outputs.empty(); });
  if (expects && result.plans == 0) result.unanswered = refusal;
  return result;
}

}  // namespace

TestResult run_test(const fs::path& folder, const TestOptions& options) {
  TestResult result;
  try {
    const OnnxTest test = load_test(folder);
    result.operators = test.operators;
    if (test.skip_reason) {
      result.outcome = Outcome::skipped;
      result.message = *test.skip_reason;
      return result;
    }
    return options.are_odd ? run_odd(test, options) : run(test, options);
  } catch (const graph::UnknownShape&) {
    result.outcome = Outcome::skipped;
    result.message = "data-dependent shapes";
  } catch (const Error& error) {
    result.outcome = Outcome::refused;
    result.message = error.what();
  } catch (const WrongResult& wrong) {
    result.outcome = Outcome::wrong;
    result.message = wrong.what();
  } catch (const std::exception& error) {
    result.outcome = Outcome::crashed;
    result.message = error.what();
  }
  return result;
}

}  // namespace autopar::conformance
