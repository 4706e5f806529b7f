// Convolutions are fastest on images whose channels are the innermost dimension: a vector of
// channels at a place is read and written whole. Between two of them images stay so through
// whatever computes on each element or each channel by itself, so that they are reordered where
// they come in and go out alone.

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/file_digest.h"
#include "runtime/kernels/common/channels_last.h"
#include "runtime/passes/channel_scale.h"

namespace autopar::runtime::passes {
namespace {

/// A collective that has it as 1 moves images with their channels last.
constexpr const char* channels_last_attribute = "channels_last";

enum class Collectives { as_they_were, moved };

/// A node as it computes on images with their channels last: the operator, which of its inputs are
/// such images, others being read as they are, and whether it makes one.
struct Form {
  Node node;
  std::vector<std::size_t> images;
  bool makes_image = true;
};

/// Pictures, and series, whose places have one dimension.
bool is_image(const Matcher& matcher, ValueId value) {
  if (value == graph::no_value) return false;
  const std::size_t rank = matcher.shape(value).size();
  return rank == 3 || rank == 4;
}

/// Whether both orders are one: nothing is moved then.
bool has_one_order(const Shape& image) {
  return image[1] == 1 || graph::num_elements({image.begin() + 2, image.end()}) == 1;
}

/// The shape of a constant whose dimensions are the last ones of an image of so many.
Shape as_image(Shape shape, std::size_t rank) {
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

/// Whether a Conv is a product of matrices, which is nearly as fast on images as ONNX has them.
bool is_pointwise(const Matcher& matcher, const Node& conv) {
  const Shape& weights = matcher.shape(conv.inputs[1]);
  const auto is_one = [](std::int64_t extent) { return extent == 1; };
  return std::all_of(weights.begin() + 2, weights.end(), is_one) &&
         std::ranges::all_of(conv.ints_attribute("strides", {}), is_one);
}

/// Whether a Conv has one channel a group in a series, which is as fast on images as ONNX has them.
bool is_depthwise_in_series(const Matcher& matcher, const Node& conv) {
  const Shape& weights = matcher.shape(conv.inputs[1]);
  return weights.size() == 3 && weights[1] == 1 && weights[0] > 1;
}

Form form_of(const Node& node, const char* op_type) {
  Form form{node, {0}};
  form.node.domain = internal_domain;
  form.node.op_type = op_type;
  return form;
}

std::optional<Form> form_of_conv(const Matcher& matcher, const Node& node) {
  if (!is_image(matcher, node.inputs[0]) || !matcher.is_constant(node.inputs[1]))
    return std::nullopt;
  return form_of(node, "ChannelsLastConv");
}

/// Whether a node reduces all places of each channel.
bool reduces_places(const Matcher& matcher, const Node& node) {
  if (!is_onnx(node, "ReduceMax") && !is_onnx(node, "ReduceMean")) return false;
  std::vector<std::int64_t> places(matcher.shape(node.inputs[0]).size() - 2);
  std::iota(places.begin(), places.end(), 2);
  return matcher.reduced_axes(node) == places;
}

/// A mean over all places of each channel, which stays an image.
bool is_mean_of_places(const Matcher& matcher, const Node& node) {
  return is_onnx(node, "GlobalAveragePool") ||
         (is_onnx(node, "ReduceMean") && node.int_attribute("keepdims", 1) != 0 &&
          reduces_places(matcher, node));
}

Form form_of_mean(const Matcher& matcher, const Node& node) {
  Form form = form_of(node, "ChannelsLastAveragePool");
  const Shape& shape = matcher.shape(node.inputs[0]);
  form.node.inputs.resize(1);
  form.node.attributes = {
      {"kernel_shape", std::vector<std::int64_t>(shape.begin() + 2, shape.end())}};
  return form;
}

bool is_maximum_of_places(const Matcher& matcher, const Node& node) {
  return is_onnx(node, "GlobalMaxPool") ||
         (is_onnx(node, "ReduceMax") && reduces_places(matcher, node));
}

/// A maximum of all places, which stand before the channels then.
Form form_of_maximum(Graph& graph, const Node& node) {
  Form form{node, {0}, node.int_attribute("keepdims", 1) != 0};
  form.node.op_type = "ReduceMax";
  std::vector<std::int64_t> places(graph.value(node.inputs[0]).shape.size() - 2);
  std::iota(places.begin(), places.end(), 1);
  form.node.inputs.resize(2);
  form.node.inputs[1] = graph.add_constant(
      node.name + ":places",
      graph::Tensor::of_int64({static_cast<std::int64_t>(places.size())}, places));
  return form;
}

std::optional<Form> form_of_concat(const Matcher& matcher, const Node& node) {
  const auto rank = static_cast<std::int64_t>(matcher.shape(node.outputs[0]).size());
  const std::int64_t axis = node.int_attribute("axis", 0);
  if (axis != 1 && axis != 1 - rank) return std::nullopt;
  Form form{node, {}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) form.images.push_back(i);
  form.node.attributes["axis"] = rank - 1;
  return form;
}

/// AllReduce, AllGather and their like; Send and Recv have messages of their own.
bool is_collective(const Node& node) {
  return node.domain == graph::collective_domain && node.inputs.size() == 1 &&
         node.outputs.size() == 1 && node.op_type != "Recv";
}

/// Where a dimension of an image stands when channels are the last one.
std::int64_t moved_dimension(std::int64_t dim, std::size_t rank) {
  if (dim == 1) return static_cast<std::int64_t>(rank) - 1;
  return dim > 1 ? dim - 1 : dim;
}

Form form_of_collective(const Matcher& matcher, const Node& node) {
  Form form{node, {0}};
  for (const char* name : {"dim", "split_dim", "concat_dim"})
    if (node.attributes.contains(name))
      form.node.attributes[name] =
          moved_dimension(node.int_attribute(name, 0), matcher.shape(node.inputs[0]).size());
  form.node.attributes[channels_last_attribute] = std::int64_t{1};
  return form;
}

/// Inputs of fewer dimensions, but for single elements, are not known by their places.
std::optional<Form> form_of_elementwise(const Pass& pass, const Node& node) {
  std::vector<TensorView> inputs;
  Form form{node, {}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    inputs.push_back(view_of(pass.graph, input));
    if ((is_image(pass, input) && pass.shape(input).size() == pass.shape(node.outputs[0]).size()) ||
        (input != graph::no_value && pass.is_constant(input) && inputs.back().elements() != 1))
      form.images.push_back(i);
    else if (input != graph::no_value && inputs.back().elements() != 1)
      return std::nullopt;
  }
  const bool is_elementwise =
      pass.kernels.chain_slots(node, inputs, view_of(pass.graph, node.outputs[0])).has_value();
  return is_elementwise ? std::optional(form) : std::nullopt;
}

std::optional<Form> find_form(const Pass& pass, const Node& node, Collectives collectives) {
  if (node.outputs.size() != 1 || node.inputs.empty()) return std::nullopt;
  if (is_maximum_of_places(pass, node) && is_image(pass, node.inputs[0]))
    return form_of_maximum(pass.graph, node);
  if (!is_image(pass, node.outputs[0])) return std::nullopt;
  if (is_onnx(node, "Conv")) return form_of_conv(pass, node);
  if (is_onnx(node, "Concat")) return form_of_concat(pass, node);
  if (is_collective(node))
    return collectives == Collectives::moved ? std::optional(form_of_collective(pass, node))
                                             : std::nullopt;
  if (!is_image(pass, node.inputs[0])) return form_of_elementwise(pass, node);
  if (is_onnx(node, "MaxPool")) return form_of(node, "ChannelsLastMaxPool");
  if (is_onnx(node, "AveragePool")) return form_of(node, "ChannelsLastAveragePool");
  if (is_mean_of_places(pass, node)) return form_of_mean(pass, node);
  if (is_onnx(node, "GroupNormalization") || is_onnx(node, "InstanceNormalization"))
    return form_of(node, "ChannelsLastGroupNormalization");
  return form_of_elementwise(pass, node);
}

/// The images of a graph, by value: as ONNX has them, and with their channels last.
class Images {
 public:
  explicit Images(Pass& pass) : pass_(pass), last_(pass.graph.values.size(), graph::no_value) {}

  /// The value of a node that makes it with channels last from now on.
  ValueId make_last(ValueId value) {
    const graph::Value& stored = pass_.graph.value(value);
    const ValueId last = pass_.graph.add_value({stored.name + channels_last_suffix, stored.type,
                                                as_channels_last(stored.shape), std::nullopt});
    last_[static_cast<std::size_t>(value)] = last;
    return last;
  }

  /// The value with its channels last, for a node to read.
  ValueId last(ValueId value, NodeId reader) {
    if (const ValueId known = last_[static_cast<std::size_t>(value)]; known != graph::no_value)
      return known;
    if (pass_.is_constant(value))
      return constant_last(value,
                           std::max(pass_.shape(value).size(),
                                    pass_.shape(pass_.graph.node(reader).outputs[0]).size()));
    const ValueId last = make_last(value);
    move(reader, value, last, value, permutation_to_last(pass_.shape(value).size()));
    return last;
  }

  /// Makes the value as ONNX has it from the one with channels last, before a node.
  void restore(ValueId value, NodeId before) {
    move(before, last_[static_cast<std::size_t>(value)], value, value,
         permutation_to_second(pass_.shape(value).size()));
  }

 private:
  /// `image`: the one of both that is as ONNX has it.
  void move(NodeId before, ValueId from, ValueId to, ValueId image,
            std::vector<std::int64_t> permutation) {
    const std::string name = pass_.graph.value(to).name + ":moved";
    pass_.insertions.before(
        before,
        has_one_order(pass_.shape(image))
            ? reshape_node(pass_.graph, name, from, to)
            : Node{name, "Transpose", "", {from}, {to}, {{"perm", std::move(permutation)}}});
  }

  /// A constant in one order, for images of so many dimensions.
  ValueId constant_last(ValueId value, std::size_t rank) {
    const graph::Tensor& stored = *pass_.graph.value(value).constant;
    const Shape to = as_channels_last(as_image(stored.shape(), rank));
    const std::string name = pass_.graph.value(value).name + channels_last_suffix;
    if (!stored.has_data())
      return pass_.graph.add_constant(name, graph::Tensor::absent(stored.type(), to));
    return pass_.graph.add_constant(name, stored.contiguous_copy().reshaped(to));
  }

  Pass& pass_;
  std::vector<ValueId> last_;
};

/// Which nodes have a form with channels last and are to take it, by node.
class Choice {
 public:
  Choice(const Pass& pass, Collectives collectives) : pass_(pass), forms_(pass.graph.nodes.size()) {
    for (std::size_t n = 0; n < forms_.size(); ++n) {
      auto form = find_form(pass, pass.graph.nodes[n], collectives);
      if (form && runs(*form) && pays(pass.graph.nodes[n], *form)) forms_[n] = std::move(form);
    }
    drop_what_moves_more();
  }

  const std::optional<Form>& form(NodeId node) const {
    return forms_[static_cast<std::size_t>(node)];
  }
  bool is_read_as_it_was(ValueId value) const {
    return pass_.is_output(value) ||
           std::ranges::any_of(pass_.readers(value), [&](NodeId reader) { return !form(reader); });
  }
  bool is_made_last(ValueId value) const {
    const NodeId maker = value == graph::no_value ? graph::no_node : pass_.producer(value);
    return maker != graph::no_node && form(maker) && form(maker)->makes_image;
  }

 private:
  bool runs(const Form& form) const {
    if (form.node.domain != internal_domain) return true;
    const KernelEntry* entry = pass_.kernels.find(internal_domain, form.node.op_type);
    if (entry == nullptr) return false;
    std::vector<TensorView> inputs;
    for (const ValueId input : form.node.inputs) inputs.push_back(view_of(pass_.graph, input));
    const TensorView output = view_of(pass_.graph, form.node.outputs[0]);
    return entry->serves == nullptr || entry->serves(form.node, inputs, {&output, 1});
  }

  /// A convolution brings images into the form; others keep it where most of what they read has it.
  bool pays(const Node& node, const Form& form) const {
    if (is_onnx(node, "Conv")) return true;
    const std::size_t rank =
        pass_.shape(form.makes_image ? node.outputs[0] : node.inputs[0]).size();
    std::int64_t made_last = 0;
    std::int64_t made_else = 0;
    for (const std::size_t i : form.images) {
      const Shape& shape = pass_.shape(node.inputs[i]);
      if (pass_.is_constant(node.inputs[i])) {
        if (shape.size() > rank || !has_one_order(as_image(shape, rank))) return false;
        continue;
      }
      if (is_made_last(node.inputs[i]))
        made_last += graph::num_elements(shape);
      else if (!has_one_order(shape))
        made_else += graph::num_elements(shape);
    }
    return made_last > made_else;
  }

  /// Elements that a Conv as ONNX has it would reorder by itself; one that need not is slower by
  /// about half of that, or not at all.
  std::int64_t elements_saved(const Node& node) const {
    if (!is_onnx(node, "Conv")) return 0;
    const std::int64_t elements = elements_of(node.inputs[0]) + elements_of(node.outputs[0]);
    if (is_depthwise_in_series(pass_, node)) return 0;
    return is_pointwise(pass_, node) ? elements / 2 : elements;
  }

  /// Elements that Transposes move around the node.
  std::int64_t elements_moved(const Node& node, const Form& form) const {
    std::int64_t moved = 0;
    if (form.makes_image && is_read_as_it_was(node.outputs[0]))
      moved = elements_of(node.outputs[0]);
    for (const std::size_t i : form.images)
      if (!is_made_last(node.inputs[i]) && !pass_.is_constant(node.inputs[i]))
        moved += elements_of(node.inputs[i]);
    return moved;
  }

  std::int64_t elements_of(ValueId image) const {
    const Shape& shape = pass_.shape(image);
    return has_one_order(shape) ? 0 : graph::num_elements(shape);
  }

  /// Nodes that hand images to one another take the form together or not at all.
  void drop_what_moves_more() {
    std::vector<NodeId> group(forms_.size());  // a node of the same group, the first one in the end
    std::iota(group.begin(), group.end(), 0);
    const auto first_of = [&](NodeId node) {
      while (group[static_cast<std::size_t>(node)] != node)
        node = group[static_cast<std::size_t>(node)];
      return node;
    };
    std::vector<std::int64_t> gained(forms_.size());
    for (std::size_t n = 0; n < forms_.size(); ++n)
      if (forms_[n])
        for (const std::size_t i : forms_[n]->images)
          if (const ValueId input = forms_[n]->node.inputs[i]; is_made_last(input))
            group[static_cast<std::size_t>(first_of(pass_.producer(input)))] =
                first_of(static_cast<NodeId>(n));
    const auto gained_by_group = [&](std::size_t n) -> std::int64_t& {
      return gained[static_cast<std::size_t>(first_of(static_cast<NodeId>(n)))];
    };
    for (std::size_t n = 0; n < forms_.size(); ++n)
      if (forms_[n])
        gained_by_group(n) +=
            elements_saved(pass_.graph.nodes[n]) - elements_moved(pass_.graph.nodes[n], *forms_[n]);
    for (std::size_t n = 0; n < forms_.size(); ++n)
      if (forms_[n] && gained_by_group(n) <= 0) forms_[n].reset();
  }

  const Pass& pass_;
  std::vector<std::optional<Form>> forms_;
};

/// BatchNormalization that no convolution has taken in becomes the Mul and the Add that it is. Half
/// types would round its factors.
void write_out_normalizations(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (!is_onnx(node, "BatchNormalization") || node.outputs.size() != 1 ||
        !is_image(pass, node.inputs[0]) || pass.type(node.inputs[0]) != DataType::float32)
      return std::nullopt;
    const auto scale = scale_of_normalization(pass, node);
    if (!scale) return std::nullopt;
    const graph::Value images = pass.graph.value(node.outputs[0]);
    Shape by_channel(images.shape.size(), 1);
    by_channel[1] = static_cast<std::int64_t>(scale->factors.size());
    const auto constant = [&](const char* suffix, const Doubles& numbers) {
      return pass.graph.add_constant(node.name + suffix,
                                     tensor_of(images.type, numbers).reshaped(by_channel));
    };
    const ValueId scaled =
        pass.graph.add_value({node.name + ":scaled", images.type, images.shape, std::nullopt});
    pass.insertions.before(pass.producer(node.outputs[0]),
                           {node.name + ":scaled",
                            "Mul",
                            "",
                            {scale->operand, constant(":factors", scale->factors)},
                            {scaled},
                            {}});
    return Node{node.name,         "Add", "", {scaled, constant(":shifts", scale->shifts)},
                {node.outputs[0]}, {}};
  });
}

bool has_convolutions_to_move(const Graph& graph, const KernelTable& kernels) {
  return kernels.find(internal_domain, "ChannelsLastConv") != nullptr &&
         std::ranges::any_of(graph.nodes, [](const Node& node) { return is_onnx(node, "Conv"); });
}

void move(Graph& graph, const KernelTable& kernels, Collectives collectives) {
  if (!has_convolutions_to_move(graph, kernels)) return;
  write_out_normalizations(graph, kernels);
  Pass pass(graph, kernels);
  const Choice choice(pass, collectives);
  Images images(pass);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto node = static_cast<NodeId>(n);
    if (!choice.form(node)) continue;
    Form form = *choice.form(node);
    const ValueId output = form.node.outputs[0];
    for (const std::size_t i : form.images)
      form.node.inputs[i] = images.last(form.node.inputs[i], node);
    if (form.makes_image) form.node.outputs[0] = images.make_last(output);
    graph.nodes[n] = std::move(form.node);
    if (form.makes_image && choice.is_read_as_it_was(output)) images.restore(output, node + 1);
  }
  pass.insertions.apply(graph);
}

}  // namespace

void move_channels_last(Graph& graph, const KernelTable& kernels) {
  move(graph, kernels, Collectives::moved);
}

void move_channels_last_within_rank(Graph& graph, const KernelTable& kernels) {
  move(graph, kernels, Collectives::as_they_were);
}

bool may_move_collectives(const Graph& graph, const KernelTable& kernels) {
  return has_convolutions_to_move(graph, kernels) &&
         std::ranges::any_of(graph.nodes, is_collective);
}

std::uint64_t digest_of_moved_collectives(const Graph& graph) {
  std::vector<std::int64_t> are_moved;
  for (const Node& node : graph.nodes)
    if (is_collective(node)) are_moved.push_back(node.int_attribute(channels_last_attribute, 0));
  return xxh3_of(std::as_bytes(std::span(are_moved)));
}

}  // namespace autopar::runtime::passes
