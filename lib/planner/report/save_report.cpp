#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/problems.h"
#include "base/read_file.h"
#include "base/whole_file.h"
#include "planner/find_plan.h"
#include "planner/planned_structure.h"
#include "planner/report/report_data.h"
#include "planner/report/report_page.h"
#include "planner/sizing.h"
#include "planner/summary.h"
#include "runtime/trace.h"

namespace autopar::planner {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using MeasuredRun = std::vector<std::vector<runtime::Span>>;

MeasuredRun load_measured(const ReportOptions& options) {
  if (options.measured.empty()) return {};
  MeasuredRun run = runtime::load_trace(options.measured, "--measured");
  if (run.empty()) fail("--measured {}: the trace has nothing of a run", options.measured.string());
  return run;
}

void write_page(const json& data, const fs::path& file) {
  const std::string page = json_text([&] { return report_page(data); });
  try {
    write_file(file, page);
  } catch (const Error& cause) {
    fail("--report: {}", cause.what());
  }
}

/// The plan of one profile of a bundle, told anew.
struct RebuiltProfile {
  graph::Graph graph;
  cost::DeviceModel device;
  plan::PipelinePlan plan;
};

RebuiltProfile rebuild(const PlannedStructure& structure, std::size_t profile, const fs::path& dir,
                       const std::string& limits) {
  runtime::InputShapes inputs;
  for (const bundle::PortInfo& port : structure.info.profiles[profile].inputs)
    inputs[port.name] = port.shape;
  RebuiltProfile rebuilt{import_model(structure, dir, inputs, limits), structure.device, {}};
  const auto stages = fitted_stages(structure, profile, rebuilt.graph);
  rebuilt.device = stages.front().cost.device();
  rebuilt.plan = search::similar_pipeline(rebuilt.graph, stages);
  return rebuilt;
}

}  // namespace

void check_report_options(const ReportOptions& options) {
  Problems problems;
  problems.collect(check_has_charts);
  problems.collect([&] {
    try {
      const WholeFile can_be_made(options.file);
    } catch (const Error& cause) {
      fail("--report: {}", cause.what());
    }
  });
  problems.collect([&] { load_measured(options); });
  problems.throw_if_any();
}

void save_report(const Plan& plan, const ReportOptions& options) {
  const FoundPlan& found = plan.contents();
  const MeasuredRun measured = load_measured(options);
  ReportedPlan reported{.model = found.model->options.file.filename().string(),
                        .plan = json::parse(plan_json(plan)),
                        .profiles = {},
                        .memory_limit_bytes = found.memory_limit_bytes,
                        .measured = measured};
  for (std::size_t p = 0; p < found.profiles.size(); ++p) {
    const LoadedProfile& profile = found.model->profiles[p];
    reported.profiles.push_back(
        {profile.binding, profile.weight, &found.profiles[p].plan, &found.profiles[p].device});
  }
  write_page(report_data(reported), options.file);
}

void save_report(const fs::path& bundle_dir, const ReportOptions& options,
                 const std::string& limits) {
  bundle::MetaInfo info = bundle::load_meta_info(bundle_dir);
  if (info.structure.empty())
    fail(
        "{}: a bundle with microbatches or a tail does not hold its model; give --report to plan, "
        "with the options that made it",
        bundle_dir.string());
  const PlannedStructure structure = read_planned_structure(std::move(info), bundle_dir);
  const MeasuredRun measured = load_measured(options);
  const std::size_t count = structure.info.profiles.size();
  std::vector<RebuiltProfile> rebuilt;
  for (std::size_t p = 0; p < count; ++p)
    rebuilt.push_back(rebuild(structure, p, bundle_dir, limits));
  ReportedPlan reported{.model = structure.info.model,
                        .plan = json::parse(read_file(bundle_dir / bundle::plan_file)),
                        .profiles = {},
                        .memory_limit_bytes = structure.info.memory_limit_bytes,
                        .measured = measured};
  for (std::size_t p = 0; p < count; ++p) {
    const bundle::ProfileInfo& profile = structure.info.profiles[p];
    reported.profiles.push_back(
        {profile.binding, profile.weight, &rebuilt[p].plan, &rebuilt[p].device});
  }
  write_page(report_data(reported), options.file);
}

void save_comparison_report(const fs::path& a, const fs::path& b, const ReportOptions& options) {
  write_page(comparison_data(json::parse(compare(a, b, /*json=*/true))), options.file);
}

void save_sizing_report(const Model& model, const Sizing& sizing, const ReportOptions& options) {
  const std::string file = model.contents().options.file.filename().string();
  write_page(sizing_data(file, sizing.assumed, json::parse(sizing_json(sizing))), options.file);
}

}  // namespace autopar::planner
