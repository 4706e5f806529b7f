#include "graph/onnx/opset_upgrade.h"

#include <algorithm>

#include "base/checked.h"
#include "graph/contrib/operator_table.h"
#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/constant_integers.h"
#include "graph/onnx/function_body.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {
namespace {

constexpr std::int64_t oldest_target = 18;

/// One rewrite under way.
struct Rewrite {
  onnx::NodeProto node;
  const UpgradeServices& services;
  std::vector<onnx::NodeProto> before;
  std::vector<onnx::NodeProto> after;

  bool has_input(int index) const {
    return index < node.input_size() && !node.input(index).empty();
  }
  /// Operators of the node's opset that are deprecated, or that it does not have, have not been
  /// checked: what is needed may be missing.
  const std::string& input_name(int index) const {
    if (!has_input(index)) fail("its input {} is left out", index);
    return node.input(index);
  }
  const Value& input(int index) const { return services.value(input_name(index)); }
  const std::string& output_name() const {
    if (node.output_size() == 0) fail("it has no output");
    return node.output(0);
  }
  void set_input(int index, const std::string& name) {
    while (node.input_size() <= index) node.add_input("");
    node.set_input(index, name);
  }
  std::string constant(const std::string& what, Tensor tensor) const {
    return services.add_constant(output_name() + "/" + what, std::move(tensor));
  }
  std::string vector(const std::string& what, const std::vector<std::int64_t>& values) const {
    return constant(what, Tensor::of_int64({std::ssize(values)}, values));
  }
  /// A helper node with one output; returns the output's name.
  std::string add_before(const std::string& op_type, const std::string& what,
                         std::initializer_list<std::string> inputs) {
    auto& helper = before.emplace_back();
    helper.set_op_type(op_type);
    helper.set_name(node.name() + "/" + what);
    for (const std::string& name : inputs) helper.add_input(name);
    helper.add_output(output_name() + "/" + what);
    return helper.output(0);
  }
};

using Upgrade = std::function<void(Rewrite&)>;

/// Moves an attribute, where present, to an input: a vector of what `read` makes of it.
template <typename Read>
void move_to_input(Rewrite& rewrite, const std::string& name, int index, const Read& read) {
  const auto* attribute = find_attribute(rewrite.node, name);
  if (!attribute) return;
  rewrite.set_input(index, read(*attribute));
  remove_attribute(rewrite.node, name);
}

/// The attribute, where present, becomes a one-dimensional int64 input.
Upgrade ints_to_input(const char* name, int index) {
  return [=](Rewrite& rewrite) {
    move_to_input(rewrite, name, index, [&](const onnx::AttributeProto& attribute) {
      std::vector<std::int64_t> values(attribute.ints().begin(), attribute.ints().end());
      if (attribute.type() == onnx::AttributeProto::INT) values = {attribute.i()};
      return rewrite.vector(name, values);
    });
  };
}

Upgrade floats_to_input(const char* name, int index) {
  return [=](Rewrite& rewrite) {
    move_to_input(rewrite, name, index, [&](const onnx::AttributeProto& attribute) {
      const std::vector<float> values(attribute.floats().begin(), attribute.floats().end());
      return rewrite.constant(name, Tensor::of_float({std::ssize(values)}, values));
    });
  };
}

/// The attribute, where present, becomes a scalar input of input 0's type.
Upgrade float_to_input(const char* name, int index) {
  return [=](Rewrite& rewrite) {
    move_to_input(rewrite, name, index, [&](const onnx::AttributeProto& attribute) {
      std::string scalar = rewrite.constant(name, Tensor::of_float({}, {{attribute.f()}}));
      const DataType type = rewrite.input(0).type;
      if (type == DataType::float32) return scalar;
      std::string cast = rewrite.add_before("Cast", std::string(name) + "_cast", {scalar});
      set_attribute(rewrite.before.back(), "to", static_cast<std::int64_t>(type));
      return cast;
    });
  };
}

Upgrade all_of(std::vector<Upgrade> steps) {
  return [steps = std::move(steps)](Rewrite& rewrite) {
    for (const Upgrade& step : steps) step(rewrite);
  };
}

Upgrade rename_to(const char* op_type) {
  return [=](Rewrite& rewrite) { rewrite.node.set_op_type(op_type); };
}

Upgrade without_attribute(const char* name) {
  return [=](Rewrite& rewrite) { remove_attribute(rewrite.node, name); };
}

/// Makes explicit a default that a later opset changed.
Upgrade old_default(const char* name, const Attribute& value) {
  return [=](Rewrite& rewrite) {
    if (!find_attribute(rewrite.node, name)) add_attribute(rewrite.node, name, value);
  };
}

Upgrade rename_attribute(const char* from, const char* to) {
  return [=](Rewrite& rewrite) {
    for (auto& attribute : *rewrite.node.mutable_attribute())
      if (attribute.name() == from) attribute.set_name(to);
  };
}

Upgrade float_to_int(const char* name) {
  return [=](Rewrite& rewrite) {
    const auto* attribute = find_attribute(rewrite.node, name);
    if (attribute != nullptr && attribute->type() == onnx::AttributeProto::FLOAT)
      set_attribute(rewrite.node, name, checked_cast<std::int64_t>(attribute->f(), name));
  };
}

/// An operand in another shape of as many elements.
void reshape_input(Rewrite& rewrite, int index, const Shape& shape) {
  const std::string what = "operand_" + std::to_string(index);
  const std::string wanted = rewrite.vector(what + "_shape", shape);
  rewrite.node.set_input(index,
                         rewrite.add_before("Reshape", what, {rewrite.input_name(index), wanted}));
}

/// The second operand was broadcast where `broadcast` said so, its dimensions being those of the
/// first from `axis` on.
void align_from_axis(Rewrite& rewrite) {
  if (int_or(rewrite.node, "broadcast", 0) != 0 && find_attribute(rewrite.node, "axis")) {
    const auto rank = static_cast<std::int64_t>(rewrite.input(0).shape.size());
    Shape shape = rewrite.input(1).shape;
    std::int64_t axis = int_or(rewrite.node, "axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) fail("its attribute 'axis' names none of {} dimensions", rank);
    const std::int64_t behind = rank - axis - static_cast<std::int64_t>(shape.size());
    if (behind > 0) {
      shape.insert(shape.end(), static_cast<std::size_t>(behind), 1);
      reshape_input(rewrite, 1, shape);
    }
  }
  remove_attribute(rewrite.node, "broadcast");
  remove_attribute(rewrite.node, "axis");
}

/// A vector of slopes was one a channel.
void slopes_by_channel(Rewrite& rewrite) {
  const Shape& slope = rewrite.input(1).shape;
  const std::size_t rank = rewrite.input(0).shape.size();
  if (slope.size() != 1 || slope[0] == 1 || rank <= 2) return;
  Shape shape(rank - 1, 1);
  shape[0] = slope[0];
  reshape_input(rewrite, 1, shape);
}

void type_name_to_number(Rewrite& rewrite) {
  const auto* to = find_attribute(rewrite.node, "to");
  onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
  if (to != nullptr && onnx::TensorProto::DataType_Parse(to->s(), &type))
    set_attribute(rewrite.node, "to", std::int64_t{type});
}

/// The scales of height and width become those of all four dimensions.
void scales_of_all_dimensions(Rewrite& rewrite) {
  const auto scale = [&](const char* name) {
    const auto* attribute = find_attribute(rewrite.node, name);
    return attribute ? attribute->f() : 1.0F;
  };
  const std::vector<float> scales{1, 1, scale("height_scale"), scale("width_scale")};
  remove_attribute(rewrite.node, "height_scale");
  remove_attribute(rewrite.node, "width_scale");
  add_attribute(rewrite.node, "scales", scales);
}

/// How often along which dimension becomes how often along each.
void repeats_of_all_dimensions(Rewrite& rewrite) {
  const auto element = [&](int index) -> std::optional<std::int64_t> {
    const Value& value = rewrite.input(index);
    const auto& constant = value.constant;
    if (!constant || !constant->has_data() || constant->elements() != 1) return std::nullopt;
    const Tensor copy = constant->contiguous_copy();
    return copy.type() == DataType::float32 ? truncated<std::int64_t>(copy.values<float>()[0])
                                            : std::optional(constant_integers(value).front());
  };
  if (!rewrite.has_input(2)) return;
  const auto tiles = element(1);
  const auto axis = element(2);
  std::vector<std::int64_t> repeats(rewrite.input(0).shape.size(), 1);
  if (!tiles || !axis || *axis < 0 || *axis >= static_cast<std::int64_t>(repeats.size())) return;
  repeats[static_cast<std::size_t>(*axis)] = *tiles;
  rewrite.set_input(1, rewrite.vector("repeats", repeats));
  rewrite.node.mutable_input()->RemoveLast();
}

/// Since 18 a Split without sizes says into how many.
void count_split_outputs(Rewrite& rewrite) {
  if (!rewrite.has_input(1)) set_attribute(rewrite.node, "num_outputs", rewrite.node.output_size());
}

/// The outputs that only training gave are no longer there.
void drop_training_outputs(Rewrite& rewrite) {
  while (rewrite.node.output_size() > 1) rewrite.node.mutable_output()->RemoveLast();
}

/// Resize read only scales, and always mapped coordinates the one way.
void add_region_of_interest(Rewrite& rewrite) {
  rewrite.set_input(2, rewrite.input_name(1));
  rewrite.set_input(1, "");
  set_attribute(rewrite.node, "coordinate_transformation_mode", "asymmetric");
  set_attribute(rewrite.node, "nearest_mode", "floor");
}

/// Softmax and its like took all dimensions from `axis` on as one.
void flatten_around(Rewrite& rewrite) {
  const Shape shape = rewrite.input(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::int64_t axis = int_or(rewrite.node, "axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return;  // the schema's own check says what is wrong
  const Shape joined(shape.begin() + axis, shape.end());
  if (axis < rank && num_elements(joined) == joined.front())
    return set_attribute(rewrite.node, "axis", axis);
  const std::string flat = rewrite.add_before("Flatten", "flat", {rewrite.input_name(0)});
  set_attribute(rewrite.before.back(), "axis", axis);
  rewrite.node.set_input(0, flat);
  set_attribute(rewrite.node, "axis", 1);

  auto& reshape = rewrite.after.emplace_back();
  reshape.set_op_type("Reshape");
  reshape.set_name(rewrite.node.name() + "/reshape");
  set_attribute(reshape, "allowzero", 1);  // else an extent of 0 stands for that of the input
  reshape.add_input(rewrite.output_name() + "/result");
  reshape.add_input(rewrite.vector("shape", shape));
  reshape.add_output(rewrite.output_name());
  rewrite.node.set_output(0, reshape.input(0));
}

/// Scale and bias were given by group, and are now by channel.
void spread_groups_over_channels(Rewrite& rewrite) {
  const std::int64_t groups = int_or(rewrite.node, "num_groups", 1);
  const Shape& shape = rewrite.input(0).shape;
  if (shape.size() < 2 || groups <= 0) return;
  const std::int64_t channels = shape[1];
  const auto spread = [&](int index, const std::string& what) {
    const std::string column = rewrite.add_before(
        "Unsqueeze", what + "_column", {rewrite.input_name(index), rewrite.vector("axis", {1})});
    const std::string wide = rewrite.add_before(
        "Expand", what + "_wide", {column, rewrite.vector("wide", {groups, channels / groups})});
    rewrite.node.set_input(index,
                           rewrite.add_before("Reshape", what + "_by_channel",
                                              {wide, rewrite.vector("channels", {channels})}));
  };
  spread(1, "scale");
  spread(2, "bias");
}

void rename_interpolation(Rewrite& rewrite) {
  const auto* mode = find_attribute(rewrite.node, "mode");
  const std::string old_name = mode ? mode->s() : "";
  if (old_name == "bilinear") set_attribute(rewrite.node, "mode", "linear");
  if (old_name == "bicubic") set_attribute(rewrite.node, "mode", "cubic");
}

/// DFT's axis is a scalar input; its default was 1.
void axis_to_scalar_input(Rewrite& rewrite) {
  const std::int64_t axis = int_or(rewrite.node, "axis", 1);
  rewrite.set_input(2, rewrite.constant("axis", Tensor::of_int64({}, {{axis}})));
  remove_attribute(rewrite.node, "axis");
}

/// A change of form: what opset brought it, and how to get there from the form before.
struct FormChange {
  std::vector<std::string_view> op_types;  ///< all where it is empty
  std::int64_t opset;
  Upgrade upgrade;
};

/// In the order of the opsets for each operator (onnx/docs/Changelog.md). Changes of types alone
/// need no entry: later schemas accept what earlier ones did.
const std::vector<FormChange>& form_changes() {
  static const std::vector<FormChange> changes = {
      {{"GlobalLpPool", "LpPool"}, 2, float_to_int("p")},
      {{"Pad"}, 2, rename_attribute("paddings", "pads")},
      {{"Concat"}, 4, old_default("axis", 1)},
      {{"Reshape"}, 5, ints_to_input("shape", 1)},
      {{}, 6, without_attribute("consumed_inputs")},
      {{"Cast"}, 6, type_name_to_number},
      // What the first version took for them; later ones have more digits.
      {{"Selu"}, 6, all_of({old_default("alpha", 1.6732F), old_default("gamma", 1.0507F)})},
      {{"Tile"}, 6, repeats_of_all_dimensions},
      {{"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"},
       7,
       align_from_axis},
      {{"BatchNormalization", "Dropout"}, 7, without_attribute("is_test")},
      {{"GRU", "LSTM", "RNN"}, 7, without_attribute("output_sequence")},
      {{"Gemm"}, 7, without_attribute("broadcast")},
      {{"PRelu"}, 7, slopes_by_channel},
      {{"Upsample"}, 7, scales_of_all_dimensions},
      {{"Upsample"}, 9, floats_to_input("scales", 1)},
      {{"BatchNormalization"}, 9, without_attribute("spatial")},
      {{"Upsample"}, 10, rename_to("Resize")},
      {{"Slice"},
       10,
       all_of({ints_to_input("starts", 1), ints_to_input("ends", 2), ints_to_input("axes", 3)})},
      {{"TopK"}, 10, ints_to_input("k", 1)},
      {{"Resize"}, 11, add_region_of_interest},
      {{"Clip"}, 11, all_of({float_to_input("min", 1), float_to_input("max", 2)})},
      {{"Pad"}, 11, all_of({ints_to_input("pads", 1), float_to_input("value", 2)})},
      {{"Scatter"}, 11, rename_to("ScatterElements")},
      {{"Dropout"}, 12, float_to_input("ratio", 1)},
      {{"Squeeze", "Unsqueeze", "ReduceSum"}, 13, ints_to_input("axes", 1)},
      {{"Split"}, 13, ints_to_input("split", 1)},
      {{"Softmax", "LogSoftmax", "Hardmax"}, 13, flatten_around},
      {{"BatchNormalization"}, 14, drop_training_outputs},
      {{"RoiAlign"}, 16, old_default("coordinate_transformation_mode", "output_half_pixel")},
      {{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSumSquare"},
       18,
       ints_to_input("axes", 1)},
      {{"Split"}, 18, count_split_outputs},
      {{"GridSample"}, 20, rename_interpolation},
      {{"DFT"}, 20, axis_to_scalar_input},
      {{"GroupNormalization"}, 21, spread_groups_over_channels},
  };
  return changes;
}

/// ONNX's own functions hand Range vectors of one number, which ONNX's inference refuses.
void scalars_of_range(Rewrite& rewrite) {
  if (rewrite.node.op_type() != "Range") return;
  for (int i = 0; i < rewrite.node.input_size(); ++i)
    if (rewrite.input(i).shape == Shape{1}) reshape_input(rewrite, i, {});
}

bool concerns(const FormChange& change, const onnx::NodeProto& node) {
  return change.op_types.empty() ||
         std::ranges::find(change.op_types, node.op_type()) != change.op_types.end();
}

template <typename Nodes>
std::int64_t opset_needed(const Nodes& nodes, std::int64_t opset) {
  std::int64_t needed = opset;
  for (const auto& node : nodes) {
    if (has_contrib_body(canonical_domain(node.domain()), node.op_type()))
      needed = std::max(needed, body_opset);
    for (const FormChange& change : form_changes())
      if (canonical_domain(node.domain()).empty() && concerns(change, node))
        needed = std::max(needed, change.opset);
  }
  return needed;
}

}  // namespace

std::int64_t target_opset(const onnx::ModelProto& model) {
  std::int64_t target = std::max(oldest_target, opsets_of(model.opset_import())[""]);
  target = opset_needed(model.graph().node(), target);
  for (const auto& function : model.functions()) {
    target = std::max(target, opsets_of(function.opset_import())[""]);
    target = opset_needed(function.node(), target);
  }
  return target;
}

std::vector<onnx::NodeProto> upgrade_node(const onnx::NodeProto& node, std::int64_t from,
                                          std::int64_t to, const UpgradeServices& services) {
  Rewrite rewrite{node, services, {}, {}};
  for (const FormChange& change : form_changes())
    if (change.opset > from && change.opset <= to && concerns(change, rewrite.node))
      change.upgrade(rewrite);
  scalars_of_range(rewrite);
  std::vector<onnx::NodeProto> nodes = std::move(rewrite.before);
  nodes.push_back(std::move(rewrite.node));
  std::ranges::move(rewrite.after, std::back_inserter(nodes));
  return nodes;
}

}  // namespace autopar::graph
