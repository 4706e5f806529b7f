// Whatever the stages, their meshes, strategies and microbatches: the ranks together compute what
// the whole graph computes, and communicate and need what was predicted.

#include "program/pipeline_program.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "planner/write_bundle.h"
#include "program/split_batch.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "runtime/tensor_files.h"
#include "unit/bundle/json_schema.h"
#include "unit/program/random_graph.h"
#include "unit/program/random_pipeline.h"

using namespace autopar;
using namespace autopar::program;
using graph::Graph;
using graph::ValueId;

namespace {

/// The batch in as many parts as it has rows, where the graph allows it.
SplitBatch in_rows(const Graph& graph) {
  try {
    const BatchInputs batch = find_batch(graph);
    return split_batch(graph, std::max(1, static_cast<int>(batch.rows)), batch);
  } catch (const Error&) {
    return {graph, {}};
  }
}

struct Tally {
  int stages = 0;
  int pipelines = 0;  ///< of several stages
  int batches = 0;    ///< that were cut
  int relays = 0;     ///< values that pass through a stage
};

void check_random_pipeline(unsigned seed, Tally& tally) {
  Random random(seed);
  const Graph whole = RandomGraph(random).grow(pick(random, 2, 12));
  const SplitBatch split = in_rows(whole);
  const int microbatches = split.ports.empty() ? 1 : static_cast<int>(find_batch(whole).rows);
  const plan::PipelinePlan plan = random_pipeline(random, split.microbatch, microbatches);
  tally.stages += static_cast<int>(plan.stages.size());
  tally.pipelines += plan.stages.size() > 1 ? 1 : 0;
  tally.batches += microbatches > 1 ? 1 : 0;
  for (const plan::StagePlan& stage : plan.stages) {
    for (const ValueId id : stage.stage.received)
      tally.relays += std::ranges::count(stage.stage.sent, id) > 0 ? 1 : 0;
  }

  const TemporaryFolder folder;
  const cost::DeviceModel device = cost::load_device_model("cpu");
  const bundle::MetaInfo info = planner::write_bundle(
      whole, split.ports, {plan, {}}, device, {.out = folder / "out", .model_name = "random"});
  CHECK(meta_info_schema().accepts(to_json(info)));
  runtime::NamedTensors inputs;
  for (const ValueId id : whole.inputs)
    inputs.emplace(whole.value(id).name, random_input(random, whole.value(id)));
  const runtime::DeviceOptions device_options{.threads = 1};
  const auto sharded = runtime::Session(folder / "out", {.device = device_options}).run(inputs);
  const auto expected = runtime::run_whole(whole, inputs, device_options);
  for (const auto& [name, tensor] : expected) {
    INFO("output " << name);
    CHECK(runtime::largest_relative_error(tensor, sharded.outputs.at(name)) < 1e-4);
  }
  CHECK(bundle::to_json(sharded.collectives) == bundle::to_json(info.profiles.front().collectives));
  for (std::size_t rank = 0; rank < info.ranks.size(); ++rank) {
    CHECK(sharded.peak_bytes[rank] <= info.ranks[rank].peak_bytes);
    const plan::StagePlan& stage = plan.stages[stage_of(plan, static_cast<int>(rank))];
    CHECK(info.ranks[rank].peak_bytes <=
          predict_peak_bytes(stage.stage, stage.plan, device, microbatches));
  }
}

}  // namespace

TEST_CASE("random stages of random graphs compute what the whole graph does") {
  Tally tally;
  for (unsigned seed = 0; seed < 250; ++seed) {
    INFO("seed " << seed);
    check_random_pipeline(seed, tally);
  }
  CAPTURE(tally.stages, tally.pipelines, tally.batches, tally.relays);
  CHECK(tally.pipelines > 150);
  CHECK(tally.batches > 30);
  CHECK(tally.relays > 30);
}
