#include "planner/write_annotated.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <set>

#include "base/mapped_file_checks.h"
#include "base/staged_folder.h"
#include "base/whole_file.h"
#include "bundle/bundle_folder.h"
#include "graph/onnx/onnx_export.h"
#include "graph/own_operators.h"
#include "plan/plan_annotations.h"
#include "planner/find_plan.h"
#include "planner/summary.h"
#include "planner/write_bundle.h"

namespace autopar::planner {
namespace {

void warn_of_own_operators(const graph::Graph& graph) {
  std::set<std::string> types;
  for (const graph::Node& node : graph.nodes)
    if (node.domain == graph::own_domain) types.insert(node.op_type);
  if (!types.empty())
    spdlog::warn("only autopar has {} of {}: other runtimes read {}, but do not run it",
                 fmt::join(types, ", "), graph::own_domain, bundle::annotated_file);
}

}  // namespace

std::string write_annotated(const Plan& plan, const BundleOptions& options) {
  const FoundPlan& found = plan.contents();
  const LoadedProfile& profile = found.model->profiles.front();
  check_output_folder(options);
  warn_of_own_operators(profile.graph);
  const Shown shown(options.progress, "writing " + options.out.string());
  const std::string plan_text = json_text([&] { return plan_json(plan); });
  publish_folder(options, [&](const std::filesystem::path& folder) {
    graph::save_annotated(profile.graph, plan::annotations_of(found.profiles.front().plan),
                          folder / bundle::annotated_file, folder / bundle::annotated_data_file);
    check_mapped_files_unchanged();
    write_file(folder / bundle::plan_file, plan_text + '\n');
  });
  return assumed_line(profile.assumed) + states_line(profile.graph) + plan_headline(found);
}

}  // namespace autopar::planner
