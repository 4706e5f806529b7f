// Operators that look at places between elements.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// The dimensions that Resize's scales and sizes are for.
std::vector<std::size_t> resized_dimensions(const graph::Node& node, std::size_t rank) {
  std::vector<std::size_t> dims;
  if (!node.has_attribute("axes")) {
    for (std::size_t d = 0; d < rank; ++d) dims.push_back(d);
  }
  for (const std::int64_t axis : node.ints_attribute("axes", {})) {
    dims.push_back(dimension(axis, rank));
  }
  return dims;
}

/// Whether the scale of dims[i] is 1, where scales are given.
bool is_unscaled(const graph::Graph& graph, const graph::Node& node, std::size_t i) {
  if (!has_input(node, 2)) return true;
  const auto& scales = graph.value(node.inputs[2]).constant;
  if (!scales || !scales->has_data() || scales->elements() == 0) return scales.has_value();
  const graph::Tensor aligned = scales->contiguous_copy();
  return aligned.type() == graph::DataType::float32 && aligned.values<float>()[i] == 1;
}

}  // namespace

/// Dimensions that are not resized split. `sizes` becomes the local one.
ShardingRule resize(const graph::Graph& graph, const graph::Node& node) {
  const Shape input = input_shapes(graph, node)[0];
  const Shape output = output_shapes(graph, node)[0];
  if (node.string_attribute("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      node.string_attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return replicated_rule(graph, node);
  }
  const std::vector<std::size_t> dims = resized_dimensions(node, input.size());
  std::string text = letters(input.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = dims[i];
    if (input[d] != output[d] || !is_unscaled(graph, node, i)) text[d] = '1';
  }
  ShardingRule rule = node_rule(graph, node, {text}, {text});
  if (!has_input(node, 3)) return rule;
  rule.localize = [dims](LocalNode& local) {
    std::vector<std::int64_t> sizes;
    for (const std::size_t d : dims) sizes.push_back(local.output_shape(0)[d]);
    append_with_ints(local, 3, "sizes", sizes);
  };
  return rule;
}

/// The grid says for each place of the output where to look; images are whole.
ShardingRule grid_sample(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t space = input_shapes(graph, node)[0].size() - 2;
  const std::string places = letters(space, "nc");
  return node_rule(graph, node, {"nc" + std::string(space, '1'), "n" + places + "1"},
                   {"nc" + places});
}

/// `size` becomes the local one.
ShardingRule affine_grid(const graph::Graph& graph, const graph::Node& node) {
  const auto size = constant_ints(graph, node, 1);
  if (!size) return replicated_rule(graph, node);
  const Shape output = output_shapes(graph, node)[0];
  ShardingRule rule = node_rule(graph, node, {"n11"}, {"n" + std::string(output.size() - 1, '1')});
  rule.localize = [size](LocalNode& local) {
    std::vector<std::int64_t> own = *size;
    own.front() = local.output_shape(0).front();
    append_with_ints(local, 1, "size", own);
  };
  return rule;
}

/// Each region of some image; the images are whole.
ShardingRule roi_pool(const graph::Graph& graph, const graph::Node& node) {
  return node_rule(graph, node, {"1c11", "r1", "r"}, {"rc11"});
}

}  // namespace autopar::sharding::rules
