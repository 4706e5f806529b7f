// Convolutions and pooling. Dimensions of space are whole: their shares would need their
// neighbours' borders.

#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// Channels are `gc` on the way in and `gm` on the way out. Whole groups go to a device, which then
/// has fewer; with one group, input channels are summed up, as `channels` says, and output channels
/// split. Loops over the kernel and over places are whole, but counted as arithmetic.
struct Grouped {
  std::string space;   ///< of the tensor whose places are no loop
  std::string kernel;  ///< letters of the loops
  std::string places;
  std::vector<FactorOptions> options;
};

Grouped grouped(const Operator& op, FactorKind channels) {
  const std::size_t space = op.rank() - 2;
  const std::string loops = letters(2 * space, "ncmg");
  Grouped texts{whole(space), loops.substr(0, space), loops.substr(space),
                options_of(loops, FactorKind::whole)};
  texts.options.push_back({.letter = 'g', .never_empty = true});
  texts.options.push_back({.letter = 'c', .kind = channels, .never_empty = true});
  texts.options.push_back({.letter = 'm', .never_empty = true});
  return texts;
}

/// Localizes a convolution whose input `bias` is added to a sum over input channels.
void localize_groups(ShardingRule& rule, std::size_t bias) {
  rule.localize = [bias](LocalNode& local) {
    local.node.attributes["group"] = local.share('g').size();
    add_bias_once(local, 'c', bias);
  };
}

/// The text of one scale a channel, or for all.
std::string channel_scale(const Operator& op, std::size_t input) {
  const bool is_one = input >= op.inputs.size() || graph::num_elements(op.inputs[input]) == 1;
  return is_one ? "" : "(gm)";
}

}  // namespace

ShardingRule convolution(const Operator& op) {
  const Grouped texts = grouped(op, FactorKind::sum);
  ShardingRule rule = op.rule({"n(gc)" + texts.space, "(gm)c" + texts.kernel, "(gm)"},
                              {"n(gm)" + texts.places}, texts.options);
  localize_groups(rule, 2);
  return rule;
}

ShardingRule transposed_convolution(const Operator& op) {
  const Grouped texts = grouped(op, FactorKind::sum);
  ShardingRule rule = op.rule({"n(gc)" + texts.places, "(gc)m" + texts.kernel, "(gm)"},
                              {"n(gm)" + texts.space}, texts.options);
  localize_groups(rule, 2);
  return rule;
}

ShardingRule convolution_integer(const Operator& op) {
  const Grouped texts = grouped(op, FactorKind::sum);
  ShardingRule rule =
      op.rule({"n(gc)" + texts.space, "(gm)c" + texts.kernel, "", channel_scale(op, 3)},
              {"n(gm)" + texts.places}, texts.options);
  localize_count(rule, 'g', "group");
  return rule;
}

/// Sums are rounded, and so whole.
ShardingRule qlinear_convolution(const Operator& op) {
  const Grouped texts = grouped(op, FactorKind::whole);
  ShardingRule rule = op.rule({"n(gc)" + texts.space, "", "", "(gm)c" + texts.kernel,
                               channel_scale(op, 4), channel_scale(op, 5), "", "", "(gm)"},
                              {"n(gm)" + texts.places}, texts.options);
  localize_count(rule, 'g', "group");
  return rule;
}

/// Offsets and mask tell by place where each channel's window looks: with one group of them,
/// channels split as in any convolution.
ShardingRule deformable_convolution(const Operator& op) {
  const std::string places = whole(op.rank() - 2);
  const std::string by_place = "n1" + places;
  if (op.node.int_attribute("offset_group", 1) != 1) {
    return op.rule({by_place, "", by_place, "", by_place}, {by_place});
  }
  ShardingRule rule =
      op.rule({"n(gc)" + places, "(gm)c" + places, by_place, "(gm)", by_place}, {"n(gm)" + places},
              {{'g', FactorKind::spatial, true, op.node.int_attribute("group", 1)},
               {'c', FactorKind::sum, true},
               {'m', FactorKind::spatial, true}});
  localize_groups(rule, 3);
  return rule;
}

/// MaxPool's second output counts positions over the whole tensor, so nothing splits beside it.
ShardingRule pool(const Operator& op) {
  if (op.has_output(1)) return op.replicated();
  const std::string text = "nc" + whole(op.rank() - 2);
  return op.rule({text}, {text});
}

namespace {

/// The mean or the extremum of all places.
ShardingRule global_pool_by(const Operator& op, FactorKind kind) {
  const std::string places = letters(op.rank() - 2, "nc");
  return op.rule({"nc" + places}, {"nc" + whole(places.size())}, options_of(places, kind, true));
}

}  // namespace

ShardingRule global_average_pool(const Operator& op) {
  return global_pool_by(op, FactorKind::mean);
}

ShardingRule global_max_pool(const Operator& op) { return global_pool_by(op, FactorKind::max); }

/// Normalised over neighbouring channels.
ShardingRule local_response(const Operator& op) {
  const std::string text = with_whole(letters(op.rank()), 1);
  return op.rule({text}, {text});
}

}  // namespace autopar::sharding::rules
