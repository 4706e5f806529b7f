#include "planner/shard_flavour.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "graph/own_operators.h"
#include "graph/runtimes/runtime_collectives.h"
#include "planner/find_plan.h"
#include "planner/write_annotated.h"
#include "planner/write_bundle.h"

namespace autopar::planner {
namespace {

constexpr std::array flavours{
    ShardFlavour{.name = "autopar",
                 .what = "a bundle that autopar runs",
                 .write = write_shards,
                 .is_of_one_profile = false},
    ShardFlavour{.name = "onnxruntime",
                 .what = "shards with ONNX Runtime's own collectives",
                 .write = write_shards,
                 .is_of_one_profile = false,
                 .runtime = OtherRuntime{cost::onnx_runtime_collectives,
                                         graph::use_onnx_runtime_collectives}},
    ShardFlavour{
        .name = "tensorrt",
        .what = "shards with TensorRT's DistCollective",
        .write = write_shards,
        .is_of_one_profile = false,
        .runtime = OtherRuntime{cost::tensorrt_collectives, graph::use_tensorrt_collectives}},
    ShardFlavour{.name = "annotated",
                 .what = "the whole model with ONNX's multi-device annotations",
                 .write = write_annotated,
                 .is_of_one_profile = true},
};

/// No other runtime has autopar's own operators.
void check_operators(const ShardFlavour& flavour, const graph::Graph& graph) {
  const auto own = std::ranges::find(graph.nodes, graph::own_domain, &graph::Node::domain);
  if (flavour.runtime && own != graph.nodes.end())
    fail("--shards {}: node '{}' is computed by {}, which autopar alone has; leave --shards out",
         flavour.name, own->name, qualified_op_type(*own));
}

}  // namespace

std::vector<std::string> shard_flavour_names() {
  std::vector<std::string> names;
  for (const ShardFlavour& flavour : flavours) names.emplace_back(flavour.name);
  return names;
}

std::string shard_flavours_text() {
  std::vector<std::string> texts;
  for (const ShardFlavour& flavour : flavours)
    texts.push_back(fmt::format("{}, {}", flavour.name, flavour.what));
  return fmt::format("{}", fmt::join(texts, "; "));
}

const ShardFlavour& shard_flavour(const std::string& name) {
  const auto found = std::ranges::find(flavours, name, &ShardFlavour::name);
  if (found == flavours.end())
    fail("--shards {}: give {}", name, fmt::join(shard_flavour_names(), " or "));
  return *found;
}

void check_stages(const ShardFlavour& flavour, const PlanOptions& options) {
  if (!flavour.runtime) return;
  if (options.stages != "1")
    fail("--stages {}: --shards {} has no messages between stages; leave one of them out",
         options.stages, flavour.name);
  if (options.microbatches != 1)
    fail("--microbatches {}: --shards {} has none; leave one of them out", options.microbatches,
         flavour.name);
}

void check_profiles(const ShardFlavour& flavour, std::size_t profiles) {
  if (flavour.is_of_one_profile && profiles > 1)
    fail("--shards {}: it is one model, of one profile; give each --shape one value", flavour.name);
}

void check_model(const ShardFlavour& flavour, const LoadedModel& model) {
  check_profiles(flavour, model.profiles.size());
  const LoadedProfile& profile = model.profiles.front();
  if (flavour.is_of_one_profile && profile.tail)
    fail(
        "--shards {}: the model ends in shapes that only a run tells, from {} on, which have no "
        "plan; leave --shards out",
        flavour.name, profile.tail->summary.first_node);
  for (const LoadedProfile& each : model.profiles) check_operators(flavour, each.graph);
}

std::string write_bundle(const Plan& plan, const BundleOptions& options) {
  return shard_flavour(plan.contents().shards).write(plan, options);
}

}  // namespace autopar::planner
