#include "cost/experiments.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"

namespace autopar::cost {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;
using sharding::StepKind;
using Attributes = std::map<std::string, graph::Attribute>;

/// Bytes that no cache holds.
constexpr std::int64_t cold_bytes = 48 << 20;

/// Small numbers, none of them 0: memory that nobody wrote is one page of zeros, in the cache.
Tensor numbers(DataType type, const Shape& shape) {
  Tensor tensor = Tensor::zeros(type, shape);
  const auto fill = [&](auto value) {
    std::byte* const to = tensor.mutable_bytes().data();
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      std::memcpy(to + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    return tensor;
  };
  if (type == DataType::float64) return fill(0.5);
  if (type == DataType::float16) return fill(std::uint16_t{0x3800});
  return type == DataType::bfloat16 ? fill(std::uint16_t{0x3f00}) : fill(0.5F);
}

/// What nodes that are alike read or make.
struct Operand {
  Shape shape;
  DataType type = DataType::float32;
  std::optional<Tensor> constant = std::nullopt;  ///< that all nodes read
  bool is_weight = false;                         ///< a constant of each node's own
};

Operand constant(Tensor tensor) { return {tensor.shape(), tensor.type(), std::move(tensor)}; }

/// Equal, independent nodes: they read the same inputs, but for weights.
struct Repeated {
  std::string op_type;
  std::vector<Operand> inputs;
  Operand output;
  Attributes attributes = {};
  std::string domain = "";
};

Graph graph_of(const Repeated& all, int nodes) {
  Graph graph;
  graph.opsets = {{"", 23}, {graph::collective_domain, 1}};
  std::vector<ValueId> inputs;
  for (const Operand& input : all.inputs) {
    const std::string name = "in" + std::to_string(inputs.size());
    inputs.push_back(input.is_weight
                         ? graph::no_value
                         : graph.add_value({name, input.type, input.shape, input.constant}));
    if (!input.is_weight && !input.constant) graph.inputs.push_back(inputs.back());
  }
  for (int n = 0; n < nodes; ++n) {
    const std::string number = std::to_string(n);
    Node node{all.op_type + number, all.op_type, all.domain, inputs, {}, all.attributes};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == graph::no_value)
        node.inputs[i] =
            graph.add_constant("weight" + number, numbers(all.inputs[i].type, all.inputs[i].shape));
    }
    node.outputs = {graph.add_value({"out" + number, all.output.type, all.output.shape, {}})};
    graph.outputs = node.outputs;
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

Work work_of(const Graph& graph) {
  DeviceModel device;
  device.weight_bytes_per_second = 1;  // so that weights are counted apart
  const CostModel alone(device, sharding::DeviceMesh({1}));
  const Node& node = graph.nodes.front();
  const auto rule = sharding::sharding_rule(graph, node);
  require(rule.has_value(), "what is measured has a sharding rule");
  const auto choices = sharding::enumerate_op_shard_specs(graph, node, *rule, alone.mesh());
  return alone.operator_work(graph, node, *rule, choices.front());
}

OperatorExperiment experiment(const Repeated& all, int nodes) {
  OperatorExperiment made{all.op_type, all.output.type, graph_of(all, nodes), {}};
  made.work = work_of(made.graph);
  return made;
}

/// Large tensors: few nodes.
int nodes_for(std::int64_t elements) {
  return static_cast<int>(
      std::clamp<std::int64_t>((1 << 21) / std::max<std::int64_t>(elements, 1), 4, 32));
}

/// Inputs and output are alike: rows of `width`.
Repeated alike(std::int64_t elements, const std::string& op_type, std::size_t inputs,
               std::int64_t width) {
  const Operand x{{elements / width, width}};
  return {op_type, std::vector<Operand>(inputs, x), x};
}

/// A constant power, as in normalisations that are written out.
Repeated power(std::int64_t elements) {
  const Operand x{{elements / 64, 64}};
  return {"Pow", {x, constant(Tensor::of_float({}, std::array{2.0F}))}, x};
}

/// Rows of a hidden size, as in transformers.
Repeated normalization(std::int64_t elements, const std::string& op_type) {
  const std::int64_t width = std::min<std::int64_t>(768, elements / 4);
  const Operand x{{elements / width, width}};
  const Operand scale = constant(numbers(DataType::float32, {width}));
  std::vector<Operand> inputs{x, scale};
  if (op_type == "LayerNormalization") inputs.push_back(scale);
  return {op_type, inputs, x};
}

Repeated mean(std::int64_t elements) {
  const std::int64_t width = 512;
  const Operand axes = constant(Tensor::of_int64({1}, {{1}}));
  return {.op_type = "ReduceMean",
          .inputs = {{{elements / width, width}}, axes},
          .output = {{elements / width, 1}},
          .attributes = {{"keepdims", std::int64_t{1}}}};
}

/// A transpose of heads: [b, s, h, d] to [b, h, s, d].
Repeated transpose(std::int64_t elements) {
  const std::int64_t heads = 8;
  const std::int64_t width = 64;
  const std::int64_t rows = elements / (heads * width);
  return {.op_type = "Transpose",
          .inputs = {{{1, rows, heads, width}}},
          .output = {{1, heads, rows, width}},
          .attributes = {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}}};
}

Repeated where(std::int64_t elements) {
  const Operand x{{elements / 64, 64}};
  return {"Where", {{x.shape, DataType::boolean}, x, x}, x};
}

Repeated concat(std::int64_t elements) {
  const Operand half{{elements / 128, 64}};
  return {.op_type = "Concat",
          .inputs = {half, half},
          .output = {{elements / 128, 128}},
          .attributes = {{"axis", std::int64_t{1}}}};
}

/// Batch, rows, depth, columns.
using ProductSizes = std::array<std::int64_t, 4>;

/// rows x depth times a weight of depth x columns, each node its own: more than caches hold. A
/// small weight is the same for all nodes, since a model of such weights has them in a cache. With
/// a batch, a product of two computed values, as in attention.
OperatorExperiment product(DataType type, const ProductSizes& sizes) {
  const auto& [batch, rows, depth, columns] = sizes;
  if (batch > 1) {
    return experiment({"MatMul",
                       {{{batch, rows, depth}, type}, {{batch, depth, columns}, type}},
                       {{batch, rows, columns}, type}},
                      4);
  }
  const std::int64_t bytes = graph::bytes_of(type, depth * columns);
  constexpr std::int64_t small = 1 << 20;
  Operand weight{{depth, columns}, type};
  weight.is_weight = bytes >= small;
  const std::int64_t nodes =
      weight.is_weight ? std::clamp<std::int64_t>(cold_bytes / bytes, 3, 24) : 16;
  return experiment({"MatMul", {{{rows, depth}, type}, weight}, {{rows, columns}, type}},
                    static_cast<int>(nodes));
}

/// `elements` are those of the payload; n times 64 of them at least.
CollectiveExperiment collective(StepKind kind, const sharding::DeviceMesh& mesh, int axis, int rank,
                                std::int64_t elements) {
  const std::vector<int> axes{axis};
  const std::vector<int> group = mesh.group(rank, axes);
  const auto ranks = static_cast<std::int64_t>(group.size());
  constexpr std::int64_t rows = 1;  // so that no blocks are packed, which costs count apart
  const std::int64_t width = std::max<std::int64_t>(elements / (rows * ranks), 1);
  const Shape whole{rows, width * ranks};
  const Shape part{rows, width};
  const std::vector<std::int64_t> sizes(group.size(), width);
  const std::int64_t own = mesh.index_in_group(rank, axes);
  const std::string sum = "sum";
  constexpr std::int64_t columns = 1;
  Attributes attributes;
  std::string op_type;
  Shape in = whole;
  Shape out = whole;
  switch (kind) {
    case StepKind::all_reduce:
      op_type = "AllReduce";
      attributes = {{"reduce", sum}};
      break;
    case StepKind::all_gather:
      op_type = "AllGather";
      in = part;
      attributes = {{"dim", columns}, {"sizes", sizes}};
      break;
    case StepKind::reduce_scatter:
      op_type = "ReduceScatter";
      out = part;
      attributes = {{"reduce", sum}, {"dim", columns}, {"sizes", sizes}};
      break;
    default:
      op_type = "AllToAll";
      out = {rows * ranks, width};
      attributes = {{"split_dim", columns},
                    {"concat_dim", std::int64_t{0}},
                    {"split_sizes", sizes},
                    {"concat_sizes", std::vector<std::int64_t>(group.size(), rows)}};
  }
  attributes["mesh_axes"] = std::vector<std::int64_t>{axis};
  attributes["ranks"] = std::vector<std::int64_t>(group.begin(), group.end());
  attributes["rank"] = own;
  constexpr int times = 4;
  return {
      kind, axis,
      static_cast<double>(graph::bytes_of(DataType::float32, graph::num_elements(whole))),
      graph_of({op_type, {{in}}, {out}, std::move(attributes), graph::collective_domain}, times)};
}

}  // namespace

std::vector<ExperimentMaker> operator_experiments(Extent extent) {
  const bool is_quick = extent == Extent::quick;
  using Sizes = std::vector<std::int64_t>;
  std::vector<ExperimentMaker> made;
  const auto add = [&](std::int64_t elements, auto make, auto... arguments) {
    made.emplace_back(
        [=] { return experiment(make(elements, arguments...), nodes_for(elements)); });
  };
  for (const std::int64_t elements :
       is_quick ? Sizes{64, 256, 1 << 12, 1 << 18}
                : Sizes{64, 256, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}) {
    add(elements, alike, memory_operator, 1, 64);
  }
  for (const std::int64_t elements : is_quick ? Sizes{1 << 13} : Sizes{1 << 13, 3 << 14, 3 << 16}) {
    for (const char* op_type : {"Tanh", "Erf", "Exp", "Sqrt", "Sigmoid", "Gelu", "Relu"}) {
      add(elements, alike, op_type, 1, 64);
    }
    for (const char* op_type : {"Add", "Sub", "Mul", "Div"}) {
      add(elements, alike, op_type, 2, 64);
    }
    add(elements, power);
    add(elements, normalization, "LayerNormalization");
    add(elements, normalization, "RMSNormalization");
    // A softmax of scores: rows as long as a sequence.
    add(elements, alike, "Softmax", 1, 128);
    for (const auto make : {mean, transpose, where, concat}) add(elements, make);
  }
  const auto add_products = [&](DataType type, const std::vector<ProductSizes>& all) {
    for (const ProductSizes& sizes : all) made.emplace_back([=] { return product(type, sizes); });
  };
  if (is_quick) {
    add_products(DataType::float32,
                 {{1, 1, 512, 768}, {1, 32, 64, 64}, {8, 64, 64, 64}, {1, 128, 256, 256}});
    return made;
  }
  add_products(
      DataType::float32,
      {{1, 1, 768, 768},    {1, 1, 768, 3072},   {1, 4, 64, 64},      {1, 16, 64, 64},
       {12, 16, 32, 16},    {1, 16, 64, 512},    {1, 32, 128, 128},   {12, 64, 64, 64},
       {12, 128, 64, 128},  {12, 128, 128, 64},  {12, 256, 64, 256},  {1, 64, 256, 256},
       {1, 16, 768, 768},   {1, 32, 768, 3072},  {1, 128, 384, 768},  {1, 128, 768, 768},
       {1, 128, 768, 3072}, {1, 128, 3072, 768}, {1, 512, 768, 3072}, {1, 128, 768, 32768}});
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float64}) {
    add_products(type, {{1, 16, 64, 64}, {12, 128, 64, 128}, {1, 128, 768, 768}});
  }
  return made;
}

std::vector<CollectiveExperiment> collective_experiments(Extent extent,
                                                         const sharding::DeviceMesh& mesh,
                                                         int rank) {
  const std::vector<std::int64_t> sizes =
      extent == Extent::quick
          ? std::vector<std::int64_t>{64, 1 << 12, 1 << 16}
          : std::vector<std::int64_t>{64, 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
  std::vector<CollectiveExperiment> made;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis_size(axis) == 1) continue;
    for (const StepKind kind : sharding::collectives) {
      for (const std::int64_t elements : sizes)
        made.push_back(collective(kind, mesh, axis, rank, elements));
    }
  }
  return made;
}

}  // namespace autopar::cost
