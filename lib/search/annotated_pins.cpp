#include "search/annotated_pins.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "plan/plan_annotations.h"
#include "sharding/shard_places.h"

namespace autopar::search {

namespace {

using graph::AnnotatedNode;
using graph::DeviceAnnotations;
using graph::ShardedTensor;
using sharding::DeviceMesh;
using sharding::ShardPlaces;
using sharding::TensorShardSpec;

/// The annotated nodes of a stage, and its devices: none where the search is to choose them.
struct Stage {
  std::vector<const AnnotatedNode*> nodes{};
  int first_device = 0;
  int devices = 0;
};

/// Calls `step` and names the node in the Error that it throws.
template <typename Step>
auto naming(const std::string& where, const AnnotatedNode& node, const Step& step) {
  try {
    return step();
  } catch (const Error& error) {
    fail("{}: node '{}' ({}): {}", where, node.name, node.op_type, error.what());
  }
}

std::vector<Stage> stages_of(const DeviceAnnotations& annotations) {
  std::map<std::optional<int>, Stage> by_number;
  for (const AnnotatedNode& node : annotations.nodes) by_number[node.stage].nodes.push_back(&node);
  std::vector<Stage> stages;
  for (auto& [number, stage] : by_number) stages.push_back(std::move(stage));
  return stages;
}

std::set<std::int64_t> devices_of(const Stage& stage) {
  std::set<std::int64_t> devices;
  for (const AnnotatedNode* node : stage.nodes)
    for (const ShardedTensor& tensor : node->tensors)
      for (const auto& holders : tensor.devices) devices.insert(holders.begin(), holders.end());
  return devices;
}

/// Several stages have the devices one after the other, as their tensors tell; where no tensor is
/// annotated, the stages are left without devices.
void number_devices(std::vector<Stage>& stages, int num_devices, const std::string& where) {
  if (stages.size() == 1) {
    stages.front().devices = num_devices;
    return;
  }
  if (std::ranges::all_of(stages, [](const Stage& each) { return devices_of(each).empty(); }))
    return;
  int first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::set<std::int64_t> devices = devices_of(stages[s]);
    if (devices.empty())
      fail("{}: no node of stage {} tells on which devices it is, which those of others do", where,
           s);
    if (*devices.begin() != first)
      fail(
          "{}: the first device of stage {} is {}, which has to be {}: stages have the devices one "
          "after the other",
          where, s, *devices.begin(), first);
    stages[s].first_device = first;
    stages[s].devices = static_cast<int>(*devices.rbegin()) - first + 1;
    first += stages[s].devices;
  }
  if (first != num_devices) fail("{}: the stages have {} of {} devices", where, first, num_devices);
}

std::size_t dimension_of(const graph::ShardedDimension& dim, const graph::Value& value) {
  const auto count = static_cast<std::int64_t>(value.shape.size());
  if (dim.axis < -count || dim.axis >= count)
    fail("there is no dimension {}: it has {}", dim.axis, count);
  const auto d = static_cast<std::size_t>(dim.axis < 0 ? dim.axis + count : dim.axis);
  if (dim.extent && *dim.extent != value.shape[d])
    fail("dimension {} is {}, but the annotation says {}", dim.axis, value.shape[d], *dim.extent);
  return d;
}

void check_is_everywhere(const ShardedTensor& tensor, const Stage& stage) {
  std::size_t holders = 0;
  for (const auto& each : tensor.devices) holders += each.size();
  if (holders != static_cast<std::size_t>(stage.devices))
    fail("{} of the devices {} to {} have a shard of it, where a plan gives each one", holders,
         stage.first_device, stage.first_device + stage.devices - 1);
}

/// The shares that each device of the stage has.
ShardPlaces places_of(const ShardedTensor& tensor, const graph::Value& value, const Stage& stage) {
  check_is_everywhere(tensor, stage);
  ShardPlaces places;
  places.shards.assign(value.shape.size(), 1);
  std::vector<std::size_t> dims;
  for (const graph::ShardedDimension& dim : tensor.dims) {
    const std::size_t d = dims.emplace_back(dimension_of(dim, value));
    if (std::ranges::count(dims, d) > 1) fail("dimension {} is told twice", dim.axis);
    places.shards[d] = static_cast<int>(dim.shards);
  }
  places.shares.resize(static_cast<std::size_t>(stage.devices));
  for (std::size_t shard = 0; shard < tensor.devices.size(); ++shard) {
    std::vector<int> shares(value.shape.size(), 0);
    std::size_t rest = shard;
    for (std::size_t i = dims.size(); i-- > 0;) {
      const auto shards = static_cast<std::size_t>(places.shards[dims[i]]);
      shares[dims[i]] = static_cast<int>(rest % shards);
      rest /= shards;
    }
    for (const std::int64_t device : tensor.devices[shard])
      places.shares[static_cast<std::size_t>(device - stage.first_device)] = shares;
  }
  return places;
}

TensorShardSpec spec_of(const ShardedTensor& tensor, const graph::Value& value, const Stage& stage,
                        const DeviceMesh& mesh) {
  const auto spec = sharding::spec_with_places(places_of(tensor, value, stage), mesh);
  if (!spec)
    fail("no axes of a mesh {} give the devices these shards: give the --mesh that they are for",
         to_string(mesh));
  return *spec;
}

/// A spec that the metadata tell in text, checked for the value.
TensorShardSpec spec_in_text(const std::string& text, const graph::Value& value,
                             const DeviceMesh& mesh) {
  TensorShardSpec spec = TensorShardSpec::parse(text);
  if (spec.dims.size() != value.shape.size())
    fail("it has {} dimensions, but the metadata have it lie as {}", value.shape.size(), text);
  std::vector<int> axes = spec.partial;
  for (const auto& dim : spec.dims) axes.insert(axes.end(), dim.begin(), dim.end());
  for (const int axis : axes)
    if (axis >= mesh.num_axes())
      fail("the metadata have it lie as {}, but the mesh {} has no axis {}", text, to_string(mesh),
           axis);
  return spec;
}

void check_are_alike(const std::string& text, const ShardPlaces& annotated,
                     const ShardPlaces& told) {
  if (annotated != told)
    fail("the metadata have it lie as {}, which is not what is annotated: leave one of them out",
         text);
}

/// Pins the inputs or outputs that are annotated.
void pin_tensors(const AnnotatedNode& annotated, const std::vector<graph::ValueId>& values,
                 std::string_view property, const graph::Graph& graph, const Stage& stage,
                 const DeviceMesh& mesh, std::map<std::size_t, TensorShardSpec>& specs) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == graph::no_value) continue;
    const graph::Value& value = graph.value(values[i]);
    const auto told = annotated.properties.find(fmt::format("{}{}", property, i));
    const auto tensor = std::ranges::find(annotated.tensors, value.name, &ShardedTensor::name);
    const bool is_told = told != annotated.properties.end();
    const bool is_annotated = tensor != annotated.tensors.end();
    try {
      if (is_told) specs[i] = spec_in_text(told->second, value, mesh);
      if (is_told && is_annotated)
        check_are_alike(told->second, places_of(*tensor, value, stage),
                        sharding::shard_places(specs[i], mesh));
      if (!is_told && is_annotated) specs[i] = spec_of(*tensor, value, stage, mesh);
    } catch (const Error& error) {
      fail("tensor '{}': {}", value.name, error.what());
    }
  }
}

void check_has_tensors(const AnnotatedNode& annotated, const graph::Node& node,
                       const graph::Graph& graph) {
  std::set<std::string_view> names;
  for (const auto* values : {&node.inputs, &node.outputs})
    for (const graph::ValueId id : *values)
      if (id != graph::no_value) names.insert(graph.value(id).name);
  for (const ShardedTensor& tensor : annotated.tensors)
    if (!names.contains(tensor.name))
      fail("tensor '{}' is none of the inputs and outputs of the model's operator", tensor.name);
}

using NodesByName = std::unordered_map<std::string_view, const graph::Node*>;

Pin pin_of(const AnnotatedNode& annotated, const NodesByName& nodes, const graph::Graph& graph,
           const Stage& stage, const DeviceMesh& mesh) {
  const auto found = nodes.find(annotated.name);
  if (found == nodes.end()) fail("the model has no operator of that name");
  const graph::Node& node = *found->second;
  check_has_tensors(annotated, node, graph);
  Pin pin{.name = annotated.name, .inputs = {}, .outputs = {}, .reductions = {}};
  pin_tensors(annotated, node.inputs, plan::input_property, graph, stage, mesh, pin.some_inputs);
  pin_tensors(annotated, node.outputs, plan::output_property, graph, stage, mesh, pin.some_outputs);
  if (!pin.some_inputs.empty() || !pin.some_outputs.empty()) pin.mesh = mesh;
  return pin;
}

/// The pins of a stage on a mesh; what is wrong goes to `problems`.
std::vector<Pin> pins_on(const DeviceMesh& mesh, const Stage& stage, const NodesByName& nodes,
                         const graph::Graph& graph, const std::string& where, Problems& problems) {
  std::vector<Pin> pins;
  for (const AnnotatedNode* node : stage.nodes)
    problems.collect([&] {
      pins.push_back(
          naming(where, *node, [&] { return pin_of(*node, nodes, graph, stage, mesh); }));
    });
  return pins;
}

/// On the first mesh that has specs for all; where none has, the problems are those of the first.
std::vector<Pin> pins_of_stage(const Stage& stage, const std::vector<DeviceMesh>& meshes,
                               const NodesByName& nodes, const graph::Graph& graph,
                               const std::string& where, Problems& problems) {
  std::optional<Problems> first;
  for (const DeviceMesh& mesh : meshes) {
    Problems own;
    std::vector<Pin> pins = pins_on(mesh, stage, nodes, graph, where, own);
    if (!own.any()) return pins;
    if (!first) first = std::move(own);
  }
  problems.collect([&] { first->throw_if_any(); });
  return {};
}

/// The meshes that autopar has written into the model; none where it has not.
std::vector<DeviceMesh> told_meshes(const DeviceAnnotations& annotations, std::size_t stages,
                                    const std::string& where) {
  std::vector<DeviceMesh> meshes;
  const auto told = annotations.properties.find(plan::meshes_property);
  if (told == annotations.properties.end()) return meshes;
  std::string_view rest = told->second;
  while (true) {
    const std::size_t comma = rest.find(',');
    meshes.push_back(DeviceMesh::parse(rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (meshes.size() != stages)
    fail("{}: {} has {} meshes for {} stages", where, plan::meshes_property, meshes.size(), stages);
  return meshes;
}

/// What a stage's mesh may be: what the model tells, of what the search may take.
std::vector<DeviceMesh> meshes_for(const Stage& stage, const DeviceMesh* told,
                                   const StageMeshes& meshes, const std::string& where) {
  if (stage.devices == 0) return {DeviceMesh({1})};  // of which no tensor has a spec
  std::vector<DeviceMesh> possible = meshes(stage.devices);
  if (possible.empty())
    fail("{}: a stage has {} devices, which none may have here", where, stage.devices);
  if (told == nullptr) return possible;
  if (std::ranges::find(possible, *told) == possible.end())
    fail("{} is annotated for a mesh {}, not {}; give --mesh {}", where, to_string(*told),
         to_string(possible.front()), to_string(*told));
  return {*told};
}

/// Where inputs and weights lie, as the metadata tell.
std::vector<Pin> stored_pins(const DeviceAnnotations& annotations, const std::string& where) {
  std::vector<Pin> pins;
  for (const auto& [name, properties] : annotations.stored) {
    const auto told = properties.find(plan::spec_property);
    if (told == properties.end()) continue;
    try {
      const TensorShardSpec spec = TensorShardSpec::parse(told->second);
      pins.push_back({.name = name, .inputs = {}, .outputs = std::vector{spec}, .reductions = {}});
    } catch (const Error& error) {
      fail("{}: metadata {} of tensor '{}': {}", where, plan::spec_property, name, error.what());
    }
  }
  return pins;
}

}  // namespace

int stages_in(const DeviceAnnotations& annotations, const std::string& where) {
  std::set<std::optional<int>> numbers;
  for (const AnnotatedNode& node : annotations.nodes) numbers.insert(node.stage);
  if (numbers.size() > 1 && numbers.contains(std::nullopt)) {
    const auto& without = *std::ranges::find_if(
        annotations.nodes, [](const AnnotatedNode& node) { return !node.stage.has_value(); });
    fail("{}: node '{}' ({}) has no pipeline_stage, which others have: give it one", where,
         without.name, without.op_type);
  }
  return std::max(1, static_cast<int>(numbers.size()));
}

std::vector<Pin> named_pins(const DeviceAnnotations& annotations) {
  std::vector<Pin> pins;
  for (const AnnotatedNode& node : annotations.nodes)
    pins.push_back({.name = node.name, .inputs = {}, .outputs = {}, .reductions = {}});
  return pins;
}

std::vector<Pin> pins_of(const DeviceAnnotations& annotations, const graph::Graph& graph,
                         const StageMeshes& meshes, const std::string& where) {
  std::vector<Stage> stages = stages_of(annotations);
  number_devices(stages, annotations.num_devices, where);
  const std::vector<DeviceMesh> told = told_meshes(annotations, stages.size(), where);
  NodesByName nodes;
  for (const graph::Node& node : graph.nodes) nodes.emplace(node.name, &node);
  Problems problems;
  std::vector<Pin> pins = stored_pins(annotations, where);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto possible = meshes_for(stages[s], told.empty() ? nullptr : &told[s], meshes, where);
    for (Pin& pin : pins_of_stage(stages[s], possible, nodes, graph, where, problems)) {
      if (stages.size() > 1) pin.in_stage = static_cast<int>(s);
      pins.push_back(std::move(pin));
    }
  }
  problems.throw_if_any();
  return pins;
}

}  // namespace autopar::search
