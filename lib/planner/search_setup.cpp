#include <charconv>

#include "base/problems.h"
#include "planner/find_plan.h"
#include "planner/profiles.h"
#include "planner/shard_flavour.h"
#include "planner/strategy_file.h"
#include "search/annotated_pins.h"
#include "search/logical_meshes.h"

namespace autopar::planner {

namespace {

/// 0 for auto.
int stage_count(const PlanOptions& options) {
  if (options.stages == "auto") return 0;
  int count = 0;
  const char* const end = options.stages.data() + options.stages.size();
  const auto [rest, error] = std::from_chars(options.stages.data(), end, count);
  if (error != std::errc() || rest != end || count < 1)
    fail("--stages {}: give a number of at least 1, or auto", options.stages);
  return count;
}

bool mesh_is_of_a_stage(const PlanOptions& options) {
  return stage_count(options) != 1 && !options.mesh.empty() && options.mesh != "auto";
}

std::vector<cost::CostModel> make_cost_models(const PlanOptions& options) {
  if (options.ngpus < 1) fail("--ngpus {}: give at least 1", options.ngpus);
  cost::DeviceModel device = cost::load_device_model(options.device);
  if (const auto& runtime = shard_flavour(options.shards).runtime)
    device.collectives = runtime->collectives();
  device.check_has(options.ngpus);
  if (options.mesh == "auto") {
    std::vector<cost::CostModel> models;
    for (const auto& mesh : search::meshes_to_search(options.ngpus, device))
      models.emplace_back(device, mesh);
    return models;
  }
  const sharding::DeviceMesh mesh = options.mesh.empty()
                                        ? sharding::DeviceMesh({options.ngpus})
                                        : sharding::DeviceMesh::parse(options.mesh);
  // A stage's mesh is that of all devices, too, where it has as many.
  if (mesh.num_devices() == options.ngpus) return {{device, mesh}};
  if (mesh_is_of_a_stage(options)) return {{device, sharding::DeviceMesh({options.ngpus})}};
  fail("--mesh {} has {} devices but --ngpus is {}; make them equal", options.mesh,
       mesh.num_devices(), options.ngpus);
}

search::SearchMethod method_of(const PlanOptions& options) {
  using search::SearchMethod;
  for (const auto method :
       {SearchMethod::ilp, SearchMethod::propagation, SearchMethod::recursive}) {
    if (options.search == name_of(method)) return method;
  }
  fail("--search {}: give ilp, propagation or recursive", options.search);
}

plan::Objective objective_of(const PlanOptions& options) {
  for (const auto objective : {plan::Objective::latency, plan::Objective::throughput}) {
    if (options.objective == name_of(objective)) return objective;
  }
  fail("--objective {}: give latency or throughput", options.objective);
}

search::SearchOptions make_search_options(const PlanOptions& options) {
  search::SearchOptions search;
  Problems problems;
  problems.collect([&] { search.method = method_of(options); });
  if (!options.presolve && search.method != search::SearchMethod::ilp)
    problems.add("--no-presolve: it is for --search ilp alone; leave it out");
  if (!(options.time_limit_seconds >= 0))
    problems.add("--time-limit {}: give seconds, 0 or more", options.time_limit_seconds);
  search.presolve = options.presolve;
  search.bound = options.bound;
  problems.collect([&] { search.memory = search::MemoryPolicy::parse(options.memory); });
  problems.collect([&] {
    if (!options.strategy.empty() && !has_annotations(options))
      search.pins = search::load_pins(options.strategy);
  });
  search.time_limit_seconds = options.time_limit_seconds;
  problems.throw_if_any();
  return search;
}

/// The stages are those that are annotated.
void take_annotations(const PlanOptions& options, SearchSetup& setup) {
  setup.annotations = annotations_of(options);
  if (!setup.annotations) return;
  setup.strategy = strategy_name(options);
  const int annotated = search::stages_in(*setup.annotations, setup.strategy);
  int& stages = setup.pipeline.stages;
  if (stages == 0) stages = annotated;
  if (stages != annotated)
    fail("{} is annotated in {} {} but --stages is {}; make them equal", setup.strategy, annotated,
         annotated == 1 ? "stage" : "stages", stages);
}

}  // namespace

SearchSetup make_search_setup(const PlanOptions& options) {
  SearchSetup setup;
  Problems problems;
  problems.collect([&] { setup.meshes = make_cost_models(options); });
  problems.collect([&] { setup.pipeline.stages = stage_count(options); });
  problems.collect([&] { setup.pipeline.objective = objective_of(options); });
  problems.collect([&] { check_stages(shard_flavour(options.shards), options); });
  if (options.microbatches < 1)
    problems.add("--microbatches {}: give at least 1", options.microbatches);
  if (options.microbatches == 1 && !options.batch.empty())
    problems.add("--batch {}: give --microbatches, too", options.batch.front());
  problems.collect([&] { setup.search = make_search_options(options); });
  problems.collect([&] { take_annotations(options, setup); });
  problems.throw_if_any();
  setup.pipeline.microbatches = options.microbatches;
  if (mesh_is_of_a_stage(options)) setup.pipeline.mesh = sharding::DeviceMesh::parse(options.mesh);
  return setup;
}

void check_one_microbatch(const PlanOptions& options, std::size_t profiles) {
  if (profiles == 1 || options.microbatches == 1) return;
  fail(
      "--microbatches {}: several profiles are of one microbatch alone; give each --shape one "
      "value, or leave it out",
      options.microbatches);
}

void check_options(const ModelOptions& model, const PlanOptions& plan,
                   const std::function<void()>& other_checks) {
  Problems problems;
  problems.collect([&] { make_search_setup(plan); });
  problems.collect([&] { check_one_microbatch(plan, profiles_of(model).size()); });
  problems.collect([&] { check_profiles(shard_flavour(plan.shards), profiles_of(model).size()); });
  if (other_checks) problems.collect(other_checks);
  if (problems.any()) problems.collect([&] { check_names(model, plan); });
  problems.throw_if_any();
}

}  // namespace autopar::planner
