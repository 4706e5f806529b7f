#include "planner/shape_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_digest.h"
#include "bundle/meta_info.h"
#include "bundle/nearest_profile.h"
#include "planner/device_fit.h"
#include "planner/planned_structure.h"
#include "planner/profile_info.h"
#include "planner/structure.h"
#include "planner/summary.h"
#include "program/pipeline_program.h"
#include "runtime/shape_source.h"
#include "search/stages/similar_pipeline.h"

namespace autopar::planner {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using runtime::InputShapes;

/// By rank: predicted as for a plan where a bound that is quickly known does not tell enough.
/// Throws Error where a rank needs more than the plan may take.
std::vector<std::int64_t> checked_peaks(const plan::PipelinePlan& plan,
                                        const program::PipelineProgram& program,
                                        const PlannedStructure& structure,
                                        const InputShapes& inputs) {
  std::vector<std::int64_t> peaks(structure.info.ranks.size());
  const std::int64_t limit = structure.info.memory_limit_bytes;
  const program::RunBytes run_bytes = run_bytes_on(structure.device);
  const auto needed_on = [&](int rank) {
    const Graph shard = program::rank_graph(plan, program, rank);
    std::int64_t needed = program::predict_memory(shard).peak_bytes;
    if (needed > limit) needed = program::predict_memory(shard, 1, run_bytes).peak_bytes;
    if (needed > limit)
      fail(
          "inputs of these shapes ({}) need {} on rank {}, and the limit is {}: send smaller ones, "
          "or partition the model with a larger limit",
          text_of(inputs), in_bytes(needed), rank, in_bytes(limit));
    return needed;
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int first = plan.stages[s].first_rank;
    for (const std::vector<int>& ranks : program::alike_ranks(program.stages[s])) {
      const std::int64_t needed = needed_on(first + ranks.front());
      for (const int rank_in_stage : ranks) {
        const int rank = first + rank_in_stage;
        peaks[static_cast<std::size_t>(rank)] = needed;
      }
    }
  }
  return peaks;
}

void add_to_digest(const program::Program& program, Xxh3Stream& stream) {
  const auto add = [&](const std::string& text) {
    stream.add(std::as_bytes(std::span(text)));
    stream.add(std::as_bytes(std::span("\n", 1)));
  };
  for (const program::Version& version : program.versions) {
    const graph::Value& value = program.graph.value(version.value);
    add(fmt::format("{} {} {} {}", value.name, name_of(value.type), graph::to_string(value.shape),
                    to_string(version.spec)));
  }
  for (const program::Instruction& instruction : program.instructions) {
    const bool is_operator = instruction.node != graph::no_node;
    const std::string what = is_operator
                                 ? program.graph.node(instruction.node).name
                                 : fmt::format("{} {} {} {}", name_of(instruction.step.kind),
                                               fmt::join(instruction.step.mesh_axes, ","),
                                               instruction.step.dim, instruction.step.split_dim);
    add(fmt::format("{} {} {}", what, fmt::join(instruction.inputs, ","),
                    fmt::join(instruction.outputs, ",")));
  }
}

/// All that ranks' graphs follow from.
std::string digest_of(const program::PipelineProgram& program) {
  Xxh3Stream stream;
  for (const program::Program& stage : program.stages) add_to_digest(stage, stream);
  return stream.digest();
}

/// A plan and its program; ranks' graphs are made of them.
struct PlannedShape {
  plan::PipelinePlan plan;
  program::PipelineProgram program;
};

runtime::ShapedProgram make(const PlannedStructure& structure, const fs::path& dir,
                            const InputShapes& inputs, const std::string& limits) {
  const Graph graph = import_model(structure, dir, inputs, limits);
  const auto made = std::make_shared<PlannedShape>();
  const auto stages =
      fitted_stages(structure, bundle::nearest_profile(structure.info, inputs), graph);
  made->plan = search::similar_pipeline(graph, stages);
  made->program = program::lower(made->plan, stages.front().cost.device());
  bundle::ProfileInfo profile = profile_info(graph, {}, made->plan, made->program);
  profile.peak_bytes = checked_peaks(made->plan, made->program, structure, inputs);
  return {
      .profile = std::move(profile),
      .shard = [made](int rank) { return program::rank_graph(made->plan, made->program, rank); },
      .digest = digest_of(made->program)};
}

}  // namespace

runtime::ShapeSource shape_source(const fs::path& bundle_dir, const std::string& limits) {
  graph::parse_import_limits(limits);  // what is wrong with them is told at once
  bundle::MetaInfo info = bundle::load_meta_info(bundle_dir);
  if (info.structure.empty()) return {};
  const auto structure = std::make_shared<std::optional<PlannedStructure>>();
  return [=](const InputShapes& inputs) {
    if (!*structure) *structure = read_planned_structure(info, bundle_dir);
    return make(**structure, bundle_dir, inputs, limits);
  };
}

}  // namespace autopar::planner
