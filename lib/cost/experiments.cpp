#include "cost/experiments.h"

#include <algorithm>
#include <array>
#include <cmath>
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
  };
  switch (type) {
    case DataType::float64:
      fill(0.5);
      break;
    case DataType::float16:
      fill(std::uint16_t{0x3800});
      break;
    case DataType::bfloat16:
      fill(std::uint16_t{0x3f00});
      break;
    case DataType::int64:
      fill(std::int64_t{1});
      break;
    case DataType::boolean:
      fill(std::uint8_t{1});
      break;
    default:
      fill(0.5F);
  }
  return tensor;
}

/// A graph of nodes that are alike: they read the same inputs, but for constants, of which each has
/// its own where they are weights.
class Repeated {
 public:
  explicit Repeated(std::string op_type, DataType type = DataType::float32)
      : op_type_(std::move(op_type)), type_(type) {
    graph_.opsets[""] = 23;
    graph_.opsets[graph::collective_domain] = 1;
  }

  Repeated& input(const Shape& shape) { return input(shape, type_); }
  Repeated& input(const Shape& shape, DataType type) {
    const std::string name = "in" + std::to_string(inputs_.size());
    graph_.inputs.push_back(graph_.add_value({name, type, shape, std::nullopt}));
    inputs_.push_back(graph_.inputs.back());
    return *this;
  }
  /// A constant that all nodes read.
  Repeated& constant(const Tensor& tensor) {
    inputs_.push_back(graph_.add_constant("c" + std::to_string(inputs_.size()), tensor));
    return *this;
  }
  /// A constant of each node's own.
  Repeated& weight(const Shape& shape) {
    weight_ = shape;
    inputs_.push_back(graph::no_value);
    return *this;
  }
  Repeated& output(const Shape& shape) { return output(shape, type_); }
  Repeated& output(const Shape& shape, DataType type) {
    outputs_.emplace_back(shape, type);
    return *this;
  }
  Repeated& attributes(Attributes attributes) {
    attributes_ = std::move(attributes);
    return *this;
  }

  /// Leaves none behind.
  Graph graph(int nodes, const std::string& domain = "") {
    for (int n = 0; n < nodes; ++n) {
      Node node{op_type_ + std::to_string(n), op_type_, domain, inputs_, {}, attributes_};
      for (ValueId& id : node.inputs) {
        if (id == graph::no_value)
          id = graph_.add_constant("weight" + std::to_string(n), numbers(type_, weight_));
      }
      for (const auto& [shape, type] : outputs_) {
        const std::string name =
            "out" + std::to_string(n) + "_" + std::to_string(node.outputs.size());
        node.outputs.push_back(graph_.add_value({name, type, shape, std::nullopt}));
      }
      if (n + 1 == nodes) graph_.outputs = node.outputs;
      graph_.nodes.push_back(std::move(node));
    }
    return std::move(graph_);
  }

  OperatorExperiment experiment(int nodes) {
    OperatorExperiment made{op_type_, type_, graph(nodes), {}};
    made.work = work_of(made.graph);
    return made;
  }

 private:
  static Work work_of(const Graph& graph) {
    DeviceModel device;
    device.weight_bytes_per_second = 1;  // so that weights are counted apart
    const CostModel alone(device, sharding::DeviceMesh({1}));
    const Node& node = graph.nodes.front();
    const auto rule = sharding::sharding_rule(graph, node);
    require(rule.has_value(), "what is measured has a sharding rule");
    const auto choices = sharding::enumerate_op_shard_specs(graph, node, *rule, alone.mesh());
    return alone.operator_work(graph, node, *rule, choices.front());
  }

  std::string op_type_;
  DataType type_;
  Graph graph_;
  std::vector<ValueId> inputs_;  ///< no_value: the weight
  Shape weight_;
  std::vector<std::pair<Shape, DataType>> outputs_;
  Attributes attributes_;
};

/// Large tensors: few nodes.
int nodes_for(std::int64_t elements) {
  return static_cast<int>(
      std::clamp<std::int64_t>((1 << 21) / std::max<std::int64_t>(elements, 1), 4, 32));
}

OperatorExperiment unary(const std::string& op_type, std::int64_t elements) {
  const Shape shape{elements / 64, 64};
  return Repeated(op_type).input(shape).output(shape).experiment(nodes_for(elements));
}

OperatorExperiment binary(const std::string& op_type, std::int64_t elements) {
  const Shape shape{elements / 64, 64};
  return Repeated(op_type).input(shape).input(shape).output(shape).experiment(nodes_for(elements));
}

/// A constant power, as in normalisations that are written out.
OperatorExperiment power(std::int64_t elements) {
  const Shape shape{elements / 64, 64};
  return Repeated("Pow")
      .input(shape)
      .constant(Tensor::of_float({}, std::array{2.0F}))
      .output(shape)
      .experiment(nodes_for(elements));
}

/// Rows of a hidden size, as in transformers.
OperatorExperiment normalization(const std::string& op_type, std::int64_t elements) {
  const std::int64_t width = std::min<std::int64_t>(768, elements / 4);
  const Shape shape{elements / width, width};
  Repeated made(op_type);
  made.input(shape).constant(numbers(DataType::float32, {width}));
  if (op_type == "LayerNormalization") made.constant(numbers(DataType::float32, {width}));
  return made.output(shape).experiment(nodes_for(elements));
}

/// A softmax of scores: rows as long as a sequence.
OperatorExperiment softmax(std::int64_t elements) {
  const Shape shape{elements / 128, 128};
  return Repeated("Softmax").input(shape).output(shape).experiment(nodes_for(elements));
}

OperatorExperiment reduce(const std::string& op_type, std::int64_t elements) {
  const std::int64_t width = 512;
  return Repeated(op_type)
      .input({elements / width, width})
      .constant(Tensor::of_int64({1}, std::array<std::int64_t, 1>{1}))
      .output({elements / width, 1})
      .attributes({{"keepdims", std::int64_t{1}}})
      .experiment(nodes_for(elements));
}

/// A transpose of heads: [b, s, h, d] to [b, h, s, d].
OperatorExperiment transpose(std::int64_t elements) {
  const std::int64_t heads = 8;
  const std::int64_t width = 64;
  const std::int64_t rows = elements / (heads * width);
  return Repeated("Transpose")
      .input({1, rows, heads, width})
      .output({1, heads, rows, width})
      .attributes({{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}})
      .experiment(nodes_for(elements));
}

OperatorExperiment where(std::int64_t elements) {
  const Shape shape{elements / 64, 64};
  return Repeated("Where")
      .input(shape, DataType::boolean)
      .input(shape)
      .input(shape)
      .output(shape)
      .experiment(nodes_for(elements));
}

OperatorExperiment concat(std::int64_t elements) {
  const Shape half{elements / 128, 64};
  return Repeated("Concat")
      .input(half)
      .input(half)
      .output({elements / 128, 128})
      .attributes({{"axis", std::int64_t{1}}})
      .experiment(nodes_for(elements));
}

/// rows x depth times a weight of depth x columns, each node its own: more than caches hold. A
/// small weight is the same for all nodes, since a model of such weights has them in a cache.
OperatorExperiment product(DataType type, std::int64_t rows, std::int64_t depth,
                           std::int64_t columns) {
  const std::int64_t bytes = graph::bytes_of(type, depth * columns);
  constexpr std::int64_t small = 1 << 20;
  Repeated made("MatMul", type);
  made.input({rows, depth});
  if (bytes < small) return made.input({depth, columns}).output({rows, columns}).experiment(16);
  return made.weight({depth, columns})
      .output({rows, columns})
      .experiment(static_cast<int>(std::clamp<std::int64_t>(cold_bytes / bytes, 3, 24)));
}

/// A product of two computed values, as in attention.
OperatorExperiment products(DataType type, std::int64_t batch, std::int64_t rows,
                            std::int64_t depth, std::int64_t columns) {
  return Repeated("MatMul", type)
      .input({batch, rows, depth})
      .input({batch, depth, columns})
      .output({batch, rows, columns})
      .experiment(4);
}

/// `elements` are those of the payload; n times 64 of them at least.
CollectiveExperiment collective(StepKind kind, const sharding::DeviceMesh& mesh, int axis, int rank,
                                std::int64_t elements) {
  const std::vector<int> axes{axis};
  const std::vector<int> group = mesh.group(rank, axes);
  const auto ranks = static_cast<std::int64_t>(group.size());
  constexpr std::int64_t rows = 16;
  const std::int64_t width = std::max<std::int64_t>(elements / (rows * ranks), 1);
  const Shape whole{rows, width * ranks};
  const Shape part{rows, width};
  const std::vector<std::int64_t> sizes(group.size(), width);
  const std::vector<std::int64_t> row_sizes(group.size(), rows);
  const std::int64_t own = mesh.index_in_group(rank, axes);
  Attributes attributes{{"mesh_axes", std::vector<std::int64_t>{axis}},
                        {"ranks", std::vector<std::int64_t>(group.begin(), group.end())}};
  std::string op_type;
  Shape in = whole;
  Shape out = whole;
  switch (kind) {
    case StepKind::all_reduce:
      op_type = "AllReduce";
      attributes["reduce"] = std::string("sum");
      break;
    case StepKind::all_gather:
      op_type = "AllGather";
      in = part;
      attributes["dim"] = std::int64_t{1};
      attributes["sizes"] = sizes;
      break;
    case StepKind::reduce_scatter:
      op_type = "ReduceScatter";
      out = part;
      attributes["reduce"] = std::string("sum");
      attributes["dim"] = std::int64_t{1};
      attributes["sizes"] = sizes;
      attributes["rank"] = own;
      break;
    default:
      op_type = "AllToAll";
      out = {rows * ranks, width};
      attributes["split_dim"] = std::int64_t{1};
      attributes["concat_dim"] = std::int64_t{0};
      attributes["split_sizes"] = sizes;
      attributes["concat_sizes"] = row_sizes;
      attributes["rank"] = own;
  }
  constexpr int times = 4;
  return {kind, axis,
          static_cast<double>(graph::bytes_of(DataType::float32, graph::num_elements(whole))),
          Repeated(op_type)
              .input(in)
              .output(out)
              .attributes(std::move(attributes))
              .graph(times, graph::collective_domain)};
}

}  // namespace

std::vector<ExperimentMaker> operator_experiments(Extent extent) {
  const bool is_quick = extent == Extent::quick;
  using Sizes = std::vector<std::int64_t>;
  std::vector<ExperimentMaker> made;
  const auto add = [&](auto make, auto... arguments) {
    made.emplace_back([=] { return make(arguments...); });
  };
  for (const std::int64_t elements :
       is_quick ? Sizes{64, 256, 1 << 12, 1 << 18}
                : Sizes{64, 256, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}) {
    add(unary, memory_operator, elements);
  }
  for (const std::int64_t elements : is_quick ? Sizes{1 << 13} : Sizes{1 << 13, 3 << 14, 3 << 16}) {
    for (const char* op_type : {"Tanh", "Erf", "Exp", "Sqrt", "Sigmoid", "Gelu", "Relu"}) {
      add(unary, op_type, elements);
    }
    for (const char* op_type : {"Add", "Sub", "Mul", "Div"}) {
      add(binary, op_type, elements);
    }
    add(power, elements);
    add(normalization, "LayerNormalization", elements);
    add(normalization, "RMSNormalization", elements);
    add(softmax, elements);
    add(reduce, "ReduceMean", elements);
    add(transpose, elements);
    add(where, elements);
    add(concat, elements);
  }
  const auto add_products = [&](DataType type,
                                const std::vector<std::array<std::int64_t, 4>>& all) {
    for (const auto& [batch, rows, depth, columns] : all) {
      if (batch == 1) {
        add(product, type, rows, depth, columns);
      } else {
        add(products, type, batch, rows, depth, columns);
      }
    }
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
    for (const StepKind kind : {StepKind::all_reduce, StepKind::all_gather,
                                StepKind::reduce_scatter, StepKind::all_to_all}) {
      for (const std::int64_t elements : sizes)
        made.push_back(collective(kind, mesh, axis, rank, elements));
    }
  }
  return made;
}

}  // namespace autopar::cost
