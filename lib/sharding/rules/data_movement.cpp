// Operators that copy, reorder or cut elements. A dimension that is cut, joined or repeated is
// whole; one that passes through unchanged splits.

#include <fmt/format.h>

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
ShardingRule transpose(const Operator& op) {
  const std::string text = letters(op.rank());
  std::string result(text.rbegin(), text.rend());
  const auto permutation = op.node.ints_attribute("perm", {});
  for (std::size_t d = 0; d < permutation.size(); ++d) result[d] = text[permutation[d]];
  return op.rule({text}, {result});
}

ShardingRule expand(const Operator& op) {
  const std::string result = letters(op.outputs[0].size());
  const std::string text = aligned(result, op.rank());
  ShardingRule rule = op.rule({text}, {result});
  rule.localize = [](LocalNode& local) { set_ints(local, 1, "shape", local.output_shape(0)); };
  return rule;
}

/// A dimension that is kept from end to end stays so in every share: starts and ends beyond a
/// share's bounds are clamped to them.
ShardingRule slice(const Operator& op) {
  const auto starts = op.constant_ints(1);
  const auto steps = op.constant_ints(4);
  if (!starts || op.is_computed(3) || op.is_computed(4)) return replicated(op);
  const std::vector<std::size_t> sliced = op.dimensions(op.constant_ints(3));
  std::string text = letters(op.rank());
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t d = sliced.at(i);
    if (op.inputs[0][d] != op.outputs[0][d] || (steps && steps->at(i) != 1)) text[d] = '1';
  }
  ShardingRule rule = op.rule({text}, {text});
  rule.lookup_input = 0;
  return rule;
}

ShardingRule concat(const Operator& op) {
  const std::string text = with_whole(letters(op.rank()), op.axis(0));
  return op.rule(std::vector<std::string>(op.node.inputs.size(), text), {text});
}

ShardingRule pad(const Operator& op) {
  const auto pads = op.constant_ints(1);
  if (!pads || op.is_computed(3)) return replicated(op);
  const std::vector<std::size_t> padded = op.dimensions(op.constant_ints(3));
  std::string text = letters(op.rank());
  for (std::size_t i = 0; i < padded.size(); ++i) {
    if (pads->at(i) != 0 || pads->at(i + padded.size()) != 0) text[padded[i]] = '1';
  }
  return op.rule({text}, {text});
}

/// A dimension that is repeated splits into repetitions.
ShardingRule tile(const Operator& op) {
  const Shape input = op.inputs[0];
  const Shape output = op.outputs[0];
  const std::string all = letters(2 * input.size());
  std::string text = all.substr(0, input.size());
  const std::string repeats = all.substr(input.size());
  std::string result;
  std::vector<FactorOptions> options;
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (output[d] == 0) text[d] = '1';
    if (input[d] == output[d] || output[d] == 0) {
      result += text[d];
      continue;
    }
    result += fmt::format("({}{})", repeats[d], text[d]);
    options.push_back({.letter = repeats[d], .size = output[d] / input[d]});
    options.push_back({text[d], FactorKind::whole});
  }
  ShardingRule rule = op.rule({text}, {result}, options);
  if (options.empty()) return rule;
  rule.localize = [input](LocalNode& local) {
    std::vector<std::int64_t> counts;
    for (std::size_t d = 0; d < input.size(); ++d) {
      const std::int64_t extent = local.shard.value(local.node.inputs[0]).shape[d];
      counts.push_back(extent == 0 ? 1 : local.output_shape(0)[d] / extent);
    }
    set_ints(local, 1, "repeats", counts);
  };
  return rule;
}

namespace {

/// Space in blocks, `hx` and `wy`, on one side, and channels `c` on the other, which are the major
/// part of what the blocks become only in the order CRD.
struct Blocks {
  std::string depth;
  std::string space;
  std::vector<FactorOptions> options;
};

Blocks blocks_of(const Operator& op, bool channels_first) {
  const std::int64_t block = op.node.int_attribute("blocksize", 1);
  Blocks blocks{channels_first ? "n(cb)hw" : "n1hw",
                channels_first ? "nc(hx)(wy)" : "n1(hx)(wy)",
                {{'x', FactorKind::whole, false, block}, {'y', FactorKind::whole, false, block}}};
  if (channels_first) blocks.options.push_back({'b', FactorKind::whole, false, block * block});
  return blocks;
}

}  // namespace

ShardingRule depth_to_space(const Operator& op) {
  const Blocks blocks = blocks_of(op, op.node.string_attribute("mode", "DCR") == "CRD");
  return op.rule({blocks.depth}, {blocks.space}, blocks.options);
}

ShardingRule space_to_depth(const Operator& op) {
  const Blocks blocks = blocks_of(op, false);
  return op.rule({blocks.space}, {blocks.depth}, blocks.options);
}

/// Blocks of all channels, channels major, become an image.
ShardingRule col_to_im(const Operator& op) {
  return op.rule({"n(cb)1"}, {"nc" + whole(op.outputs[0].size() - 2)}, {{'b', FactorKind::whole}});
}

}  // namespace autopar::sharding::rules
