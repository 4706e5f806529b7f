// Convolutions and pooling. Dimensions of space are whole: their shares would need their
// neighbours' borders.

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// Channels are `gc` on the way in and `gm` on the way out. Whole groups go to a device, which then
/// has fewer; with one group, input channels are summed up, as `channels` says, and output channels
/// split. Loops over the kernel and over places are whole, but counted as arithmetic.
struct Grouped {
  std::string input;
  std::string weights;
  std::string output;
  std::vector<FactorOptions> options;
};

Grouped grouped(const Operator& op, FactorKind channels, bool is_transposed = false) {
  const std::size_t space = op.rank() - 2;
  const std::string loops = letters(2 * space, "ncmg");
  const std::string kernel = loops.substr(0, space);
  const std::string places = loops.substr(space);
  Grouped texts{"n(gc)" + (is_transposed ? places : whole(space)),
                (is_transposed ? "(gc)m" : "(gm)c") + kernel,
                "n(gm)" + (is_transposed ? whole(space) : places),
                options_of(loops, FactorKind::whole)};
  texts.options.push_back({.letter = 'g', .never_empty = true});
  texts.options.push_back({.letter = 'c', .kind = channels, .never_empty = true});
  texts.options.push_back({.letter = 'm', .never_empty = true});
  return texts;
}

/// The rule of a convolution whose input `bias` is added to a sum over input channels.
ShardingRule with_groups(ShardingRule rule, std::size_t bias) {
  rule.placed = "c";
  rule.localize = [bias](LocalNode& local) {
    local.node.attributes["group"] = local.extent('g');
    add_bias_once(local, 'c', bias);
  };
  return rule;
}

/// The text of one scale a channel, or for all.
std::string channel_scale(const Operator& op, std::size_t input) {
  const bool is_one = input >= op.inputs.size() || graph::num_elements(op.inputs[input]) == 1;
  return is_one ? "" : "(gm)";
}

/// The mean or the extremum of all places.
ShardingRule global_pool_by(const Operator& op, FactorKind kind) {
  const std::string places = letters(op.rank() - 2, "nc");
  return op.rule({"nc" + places}, {"nc" + whole(places.size())}, options_of(places, kind, true));
}

}  // namespace

ShardingRule convolution(const Operator& op) {
  const auto [input, weights, output, options] = grouped(op, FactorKind::sum);
  return with_groups(op.rule({input, weights, "(gm)"}, {output}, options), 2);
}

ShardingRule transposed_convolution(const Operator& op) {
  const auto [input, weights, output, options] = grouped(op, FactorKind::sum, true);
  return with_groups(op.rule({input, weights, "(gm)"}, {output}, options), 2);
}

ShardingRule convolution_integer(const Operator& op) {
  const auto [input, weights, output, options] = grouped(op, FactorKind::sum);
  return with_count(op.rule({input, weights, "", channel_scale(op, 3)}, {output}, options), 'g',
                    "group");
}

/// Sums are rounded, and so whole.
ShardingRule qlinear_convolution(const Operator& op) {
  const auto [input, weights, output, options] = grouped(op, FactorKind::whole);
  return with_count(
      op.rule({input, "", "", weights, channel_scale(op, 4), channel_scale(op, 5), "", "", "(gm)"},
              {output}, options),
      'g', "group");
}

/// Offsets and mask tell by place where each channel's window looks: with one group of them,
/// channels split as in any convolution.
ShardingRule deformable_convolution(const Operator& op) {
  const std::string places = whole(op.rank() - 2);
  const std::string by_place = "n1" + places;
  if (op.node.int_attribute("offset_group", 1) != 1) {
    return op.rule({by_place, "", by_place, "", by_place}, {by_place});
  }
  const std::vector<FactorOptions> options{
      {'g', FactorKind::spatial, true, op.node.int_attribute("group", 1)},
      {'c', FactorKind::sum, true},
      {'m', FactorKind::spatial, true}};
  return with_groups(op.rule({"n(gc)" + places, "(gm)c" + places, by_place, "(gm)", by_place},
                             {"n(gm)" + places}, options),
                     3);
}

/// MaxPool's second output counts positions over the whole tensor, so nothing splits beside it.
ShardingRule pool(const Operator& op) {
  if (op.has_output(1)) return replicated(op);
  const std::string text = "nc" + whole(op.rank() - 2);
  return op.rule({text}, {text});
}

ShardingRule global_average_pool(const Operator& op) {
  return global_pool_by(op, FactorKind::mean);
}

ShardingRule global_max_pool(const Operator& op) { return global_pool_by(op, FactorKind::max); }

}  // namespace autopar::sharding::rules
