#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "planner/planner.h"

namespace autopar::python {

namespace nb = nanobind;
using planner::BundleOptions;
using planner::ModelOptions;
using planner::Plan;
using planner::PlanOptions;
using planner::PlanSummary;

namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

void bind_options(nb::module_& module) {
  nb::class_<ModelOptions>(module, "ModelOptions")
      .def(nb::init<>())
      .def_rw("file", &ModelOptions::file)
      .def_rw("shapes", &ModelOptions::shapes)
      .def_rw("profile_weights", &ModelOptions::profile_weights)
      .def_rw("constants", &ModelOptions::constants)
      .def_rw("loops", &ModelOptions::loops)
      .def_rw("limits", &ModelOptions::limits)
      .def_rw("weights_may_be_absent", &ModelOptions::weights_may_be_absent);
  nb::class_<PlanOptions>(module, "PlanOptions")
      .def(nb::init<>())
      .def_rw("ngpus", &PlanOptions::ngpus)
      .def_rw("mesh", &PlanOptions::mesh)
      .def_rw("device", &PlanOptions::device)
      .def_rw("memory", &PlanOptions::memory)
      .def_rw("search", &PlanOptions::search)
      .def_rw("bound", &PlanOptions::bound)
      .def_rw("presolve", &PlanOptions::presolve)
      .def_rw("strategy", &PlanOptions::strategy)
      .def_rw("time_limit", &PlanOptions::time_limit_seconds)
      .def_rw("stages", &PlanOptions::stages)
      .def_rw("microbatches", &PlanOptions::microbatches)
      .def_rw("batch", &PlanOptions::batch)
      .def_rw("objective", &PlanOptions::objective)
      .def_rw("discover", &PlanOptions::discover)
      .def_rw("shards", &PlanOptions::shards);
}

void bind_results(nb::module_& module) {
  nb::class_<planner::Model>(module, "Model")
      .def_prop_ro("assumed", &planner::Model::assumed)
      .def_prop_ro("operators_without_kernel", &planner::operators_without_kernel);
  nb::class_<PlanSummary>(module, "PlanSummary")
      .def_ro("ranks", &PlanSummary::ranks)
      .def_ro("stages", &PlanSummary::stages)
      .def_ro("cost_seconds", &PlanSummary::cost_seconds)
      .def_ro("lower_bound_seconds", &PlanSummary::lower_bound_seconds)
      .def_ro("proven_optimal", &PlanSummary::proven_optimal)
      .def_ro("interrupted", &PlanSummary::interrupted)
      .def_ro("weight_bytes", &PlanSummary::weight_bytes)
      .def_ro("peak_bytes", &PlanSummary::peak_bytes)
      .def_ro("one_device_seconds", &PlanSummary::one_device_seconds)
      .def_ro("one_device_bytes", &PlanSummary::one_device_bytes);
  nb::class_<Plan>(module, "Plan")
      .def("summary", &Plan::summary, Unlocked())
      .def("report", &planner::report_text, Unlocked())
      .def("json", &planner::plan_json, Unlocked())
      .def(
          "write",
          [](const Plan& plan, const std::filesystem::path& out, bool force) {
            return planner::write_bundle(plan, {.out = out, .force = force});
          },
          Unlocked());
}

}  // namespace

void bind_planning(nb::module_& module) {
  bind_options(module);
  bind_results(module);
  module.def("device_names", &planner::device_names);
  module.def("load_operators", &planner::load_operators, Unlocked());
  module.def(
      "check_options",
      [](const ModelOptions& model, const PlanOptions& plan) {
        planner::check_options(model, plan);
      },
      Unlocked());
  module.def(
      "check_options",
      [](const ModelOptions& model, const PlanOptions& plan, const std::filesystem::path& out,
         bool force) {
        planner::check_options(model, plan,
                               [&] { planner::check_output_folder({.out = out, .force = force}); });
      },
      Unlocked());
  module.def("load_model", &planner::load_model, Unlocked());
  module.def("plan", &planner::plan, Unlocked());
}

}  // namespace autopar::python
