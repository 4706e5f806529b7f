#include "graph/onnx/device_annotations.h"

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/problems.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {
namespace {

constexpr std::int64_t first_ir_version = 11;
constexpr std::string_view own_property = "autopar.";
/// As many shards as a mesh may have devices: nobody's number makes a larger list.
constexpr std::int64_t most_shards = 1 << 20;

using Properties = std::map<std::string, std::string>;

void write_properties(const Properties& properties, auto& proto) {
  for (const auto& [key, value] : properties) {
    auto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

Properties own_properties(const auto& proto) {
  Properties properties;
  for (const auto& entry : proto.metadata_props())
    if (entry.key().starts_with(own_property)) properties[entry.key()] = entry.value();
  return properties;
}

/// A shard on one device is that device; on several it is a group, whose key is no device's number.
void write_devices(const ShardedTensor& tensor, onnx::ShardingSpecProto& proto) {
  std::int64_t groups = 0;
  for (const std::vector<std::int64_t>& holders : tensor.devices) {
    if (holders.size() == 1) {
      proto.add_device(holders.front());
      continue;
    }
    auto& group = *proto.add_index_to_device_group_map();
    group.set_key(-++groups);
    group.mutable_value()->Add(holders.begin(), holders.end());
    proto.add_device(group.key());
  }
}

void write_tensor(const ShardedTensor& tensor, onnx::ShardingSpecProto& proto) {
  proto.set_tensor_name(tensor.name);
  write_devices(tensor, proto);
  for (const ShardedDimension& dim : tensor.dims) {
    auto& sharded = *proto.add_sharded_dim();
    sharded.set_axis(dim.axis);
    auto& sharding = *sharded.add_simple_sharding();
    sharding.set_num_shards(dim.shards);
    if (dim.extent) sharding.set_dim_value(*dim.extent);
  }
}

/// Blocks of a dimension that was fused of several are shards of it where the first alone is cut,
/// evenly.
ShardedDimension read_dimension(const onnx::ShardedDimProto& proto) {
  if (!proto.has_axis()) fail("a sharded_dim has no axis");
  if (proto.simple_sharding_size() == 0)
    fail("dimension {} has no simple_sharding: give it num_shards", proto.axis());
  const auto& first = proto.simple_sharding(0);
  ShardedDimension dim{.axis = proto.axis(), .shards = first.num_shards()};
  if (dim.shards < 1 || dim.shards > most_shards)
    fail("dimension {} has {} shards: give it 1 to {}", dim.axis, dim.shards, most_shards);
  if (proto.simple_sharding_size() == 1) {
    if (first.has_dim_value()) dim.extent = first.dim_value();
    return dim;
  }
  const auto& parts = proto.simple_sharding();
  const bool is_first_alone = std::all_of(parts.begin() + 1, parts.end(), [](const auto& part) {
    return part.num_shards() == 1 && part.dim_value() > 0;
  });
  if (!is_first_alone || first.dim_value() < 1 || first.dim_value() % dim.shards != 0)
    fail(
        "dimension {} is cut within blocks, which no plan can be: of several simple_sharding only "
        "the first may have num_shards above 1, a divisor of its dim_value",
        dim.axis);
  std::int64_t extent = 1;
  for (const auto& part : parts) {
    if (part.dim_value() > std::numeric_limits<std::int64_t>::max() / extent)
      fail("dimension {} has blocks whose sizes multiply to more than 64 bits", dim.axis);
    extent *= part.dim_value();
  }
  dim.extent = extent;
  return dim;
}

std::vector<std::int64_t> read_holders(const onnx::ShardingSpecProto& proto, std::int64_t device,
                                       int num_devices) {
  std::vector<std::int64_t> holders{device};
  for (const auto& group : proto.index_to_device_group_map())
    if (group.key() == device) holders.assign(group.value().begin(), group.value().end());
  if (holders.empty()) fail("device group {} is empty", device);
  for (const std::int64_t holder : holders)
    if (holder < 0 || holder >= num_devices)
      fail("device {} is none of the configuration's {}", holder, num_devices);
  return holders;
}

ShardedTensor read_tensor(const onnx::ShardingSpecProto& proto, int num_devices) {
  ShardedTensor tensor{.name = proto.tensor_name(), .dims = {}, .devices = {}};
  std::int64_t shards = 1;
  for (const auto& dim : proto.sharded_dim()) {
    tensor.dims.push_back(read_dimension(dim));
    shards = std::min(most_shards + 1, shards * tensor.dims.back().shards);
  }
  if (proto.device_size() != shards)
    fail("it has {} shards but lists {} devices or groups", shards, proto.device_size());
  std::set<std::int64_t> seen;
  for (const std::int64_t device : proto.device()) {
    tensor.devices.push_back(read_holders(proto, device, num_devices));
    for (const std::int64_t holder : tensor.devices.back())
      if (!seen.insert(holder).second) fail("device {} has more than one shard", holder);
  }
  return tensor;
}

bool has(const auto& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void read_tensors(const onnx::NodeDeviceConfigurationProto& proto, int num_devices,
                  AnnotatedNode& node) {
  for (const auto& spec : proto.sharding_spec()) {
    const std::string where = fmt::format("tensor '{}'", spec.tensor_name());
    if (!has(node.inputs, spec.tensor_name()) && !has(node.outputs, spec.tensor_name()))
      fail("{} is none of its inputs and outputs", where);
    const auto is_it = [&](const ShardedTensor& other) { return other.name == spec.tensor_name(); };
    if (std::ranges::any_of(node.tensors, is_it)) fail("{} is annotated twice", where);
    try {
      node.tensors.push_back(read_tensor(spec, num_devices));
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  }
}

/// Nothing where the node says nothing of the configuration.
std::optional<AnnotatedNode> read_node(const onnx::NodeProto& proto,
                                       const DeviceAnnotations& annotations,
                                       const std::set<std::string>& configurations) {
  AnnotatedNode node{.name = proto.name(), .op_type = proto.op_type()};
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  bool is_annotated = false;
  for (const auto& each : proto.device_configurations()) {
    if (!configurations.contains(each.configuration_id()))
      fail("configuration_id '{}' is no configuration of the model", each.configuration_id());
    if (each.configuration_id() != annotations.configuration) continue;
    if (std::exchange(is_annotated, true))
      fail("it has configuration '{}' twice", annotations.configuration);
    read_tensors(each, annotations.num_devices, node);
    if (each.has_pipeline_stage()) node.stage = each.pipeline_stage();
  }
  if (!is_annotated) return std::nullopt;
  if (proto.name().empty()) fail("it has annotations but no name, by which it is pinned: give one");
  node.properties = own_properties(proto);
  return node;
}

/// A node without a name is told by its outputs.
std::string description(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node '{}' ({})", node.name(), node.op_type());
  return fmt::format("the node of '{}' ({})", fmt::join(node.output(), "', '"), node.op_type());
}

void read_nodes(const onnx::GraphProto& graph, const std::string& where,
                const std::set<std::string>& configurations, DeviceAnnotations& annotations) {
  Problems problems;
  std::unordered_map<std::string, int> uses;
  for (const auto& node : graph.node()) ++uses[node.name()];
  for (const onnx::NodeProto& proto : graph.node())
    problems.collect([&] {
      try {
        auto node = read_node(proto, annotations, configurations);
        if (node && uses[node->name] > 1)
          fail("another node has its name: give each one of its own");
        if (node) annotations.nodes.push_back(std::move(*node));
      } catch (const Error& error) {
        fail("{}: {}: {}", where, description(proto), error.what());
      }
    });
  problems.throw_if_any();
}

void refuse_annotated_nodes(const auto& nodes, const std::string& where);

void refuse_annotated_bodies(const onnx::NodeProto& node, const std::string& where) {
  for (const auto& attribute : node.attribute()) {
    const std::string body =
        fmt::format("{}: body '{}' of {}", where, attribute.name(), description(node));
    refuse_annotated_nodes(attribute.g().node(), body);
    for (const auto& graph : attribute.graphs()) refuse_annotated_nodes(graph.node(), body);
  }
}

/// Of the nodes of a body or function: one of them is several operators of the model, or none.
void refuse_annotated_nodes(const auto& nodes, const std::string& where) {
  for (const auto& node : nodes) {
    if (node.device_configurations_size() > 0)
      fail("{}: {} is annotated, which only nodes of the model's own graph may be", where,
           description(node));
    refuse_annotated_bodies(node, where);
  }
}

void refuse_annotations_inside(const onnx::ModelProto& model, const std::string& where) {
  for (const auto& function : model.functions())
    refuse_annotated_nodes(function.node(),
                           fmt::format("{}: function '{}'", where, function.name()));
  for (const auto& node : model.graph().node()) refuse_annotated_bodies(node, where);
}

void check_configurations(const onnx::ModelProto& model, const std::string& where) {
  if (model.configuration_size() == 0)
    fail("{} has no multi-device configuration: its nodes are to be annotated for one", where);
  if (model.ir_version() < first_ir_version)
    fail("{} has annotations but IR version {}, which knows none: set its ir_version to {}", where,
         model.ir_version(), first_ir_version);
  std::set<std::string> names;
  for (const auto& each : model.configuration())
    if (!names.insert(each.name()).second)
      fail("{} has configuration '{}' twice: give each a name of its own", where, each.name());
}

/// The configuration of so many devices.
void choose_configuration(const onnx::ModelProto& model, const std::string& where, int num_devices,
                          DeviceAnnotations& annotations) {
  std::vector<int> sizes;
  std::vector<std::string> fitting;
  for (const auto& each : model.configuration()) {
    sizes.push_back(each.num_devices());
    if (each.num_devices() == num_devices) fitting.push_back(each.name());
  }
  if (fitting.empty())
    fail("{} is annotated for {} devices but --ngpus is {}; make them equal", where,
         fmt::join(sizes, ", "), num_devices);
  if (fitting.size() > 1)
    fail("{} has several configurations for {} devices: {}; leave one", where, num_devices,
         fmt::join(fitting, ", "));
  annotations.configuration = fitting.front();
  annotations.num_devices = num_devices;
}

}  // namespace

void annotate(onnx::ModelProto& model, const DeviceAnnotations& annotations) {
  model.set_ir_version(std::max(first_ir_version, model.ir_version()));
  auto& configuration = *model.add_configuration();
  configuration.set_name(annotations.configuration);
  configuration.set_num_devices(annotations.num_devices);
  write_properties(annotations.properties, model);
  std::unordered_map<std::string_view, const AnnotatedNode*> by_name;
  for (const AnnotatedNode& node : annotations.nodes) by_name.emplace(node.name, &node);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto& proto : *graph.mutable_node()) {
    const auto found = by_name.find(proto.name());
    if (found == by_name.end()) continue;
    const AnnotatedNode& node = *found->second;
    auto& own = *proto.add_device_configurations();
    own.set_configuration_id(annotations.configuration);
    for (const ShardedTensor& tensor : node.tensors)  // what a body captures is no input in ONNX
      if (has(proto.input(), tensor.name) || has(proto.output(), tensor.name))
        write_tensor(tensor, *own.add_sharding_spec());
    if (node.stage) own.set_pipeline_stage(*node.stage);
    write_properties(node.properties, proto);
  }
  const auto write_stored = [&](auto& protos) {
    for (auto& proto : protos)
      if (const auto found = annotations.stored.find(proto.name());
          found != annotations.stored.end())
        write_properties(found->second, proto);
  };
  write_stored(*graph.mutable_input());
  write_stored(*graph.mutable_initializer());
}

DeviceAnnotations read_annotations(const std::filesystem::path& file, int num_devices) {
  register_collective_schemas();
  const ModelFile model_file(file, /*weights_may_be_absent=*/true);
  const onnx::ModelProto& model = model_file.model();
  const std::string where = file.string();
  DeviceAnnotations annotations;
  check_configurations(model, where);
  choose_configuration(model, where, num_devices, annotations);
  refuse_annotations_inside(model, where);
  std::set<std::string> configurations;
  for (const auto& each : model.configuration()) configurations.insert(each.name());
  read_nodes(model.graph(), where, configurations, annotations);
  annotations.properties = own_properties(model);
  if (annotations.nodes.empty() && annotations.properties.empty())
    fail("{}: no node is annotated for configuration '{}'", where, annotations.configuration);
  const auto read_stored = [&](const auto& protos) {
    for (const auto& proto : protos)
      if (auto properties = own_properties(proto); !properties.empty())
        annotations.stored.emplace(proto.name(), std::move(properties));
  };
  read_stored(model.graph().input());
  read_stored(model.graph().initializer());
  return annotations;
}

}  // namespace autopar::graph
