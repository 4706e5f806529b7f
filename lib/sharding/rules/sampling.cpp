// Operators that look at places between elements.

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// Whether the scale of dims[i] is 1, where scales are given.
bool is_unscaled(const Operator& op, std::size_t i) {
  if (!op.has_input(2)) return true;
  const auto& scales = op.graph.value(op.node.inputs[2]).constant;
  if (!scales || !scales->has_data() || scales->elements() == 0) return scales.has_value();
  const graph::Tensor aligned = scales->contiguous_copy();
  return aligned.type() == graph::DataType::float32 && aligned.values<float>()[i] == 1;
}

}  // namespace

/// Dimensions that are not resized split. `sizes` becomes the local one.
ShardingRule resize(const Operator& op) {
  if (op.node.string_attribute("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      op.node.string_attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return replicated(op);
  }
  // Those that scales and sizes are for.
  const std::vector<std::size_t> dims = op.dimensions(
      op.node.has_attribute("axes") ? std::optional(op.node.ints_attribute("axes", {}))
                                    : std::nullopt);
  std::string text = letters(op.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = dims[i];
    if (op.inputs[0][d] != op.outputs[0][d] || !is_unscaled(op, i)) text[d] = '1';
  }
  ShardingRule rule = op.rule({text}, {text});
  if (!op.has_input(3)) return rule;
  rule.localize = [dims](LocalNode& local) {
    std::vector<std::int64_t> sizes;
    for (const std::size_t d : dims) sizes.push_back(local.output_shape(0)[d]);
    set_ints(local, 3, "sizes", sizes);
  };
  return rule;
}

/// The grid says for each place of the output where to look; images are whole.
ShardingRule grid_sample(const Operator& op) {
  const std::string places = letters(op.rank() - 2, "nc");
  return op.rule({"nc" + whole(places.size()), "n" + places + "1"}, {"nc" + places});
}

/// `size` becomes the local one.
ShardingRule affine_grid(const Operator& op) {
  const auto size = op.constant_ints(1);
  if (!size) return replicated(op);
  ShardingRule rule = op.rule({"n11"}, {"n" + whole(op.outputs[0].size() - 1)});
  rule.localize = [size](LocalNode& local) {
    std::vector<std::int64_t> own = *size;
    own.front() = local.output_shape(0).front();
    set_ints(local, 1, "size", own);
  };
  return rule;
}

/// Each region of some image; the images are whole.
ShardingRule roi_pool(const Operator& op) { return op.rule({"1c11", "r1", "r"}, {"rc11"}); }

}  // namespace autopar::sharding::rules
