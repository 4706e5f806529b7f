// Attention as one operator (opset 23). Heads split: `g` heads of keys and values, each serving
// `r` heads of queries. Caches, which come and go as [batch, heads, sequence, elements], split with
// them.

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// The mask is broadcast against batch, heads, queries, keys; only its last dimension may also be
/// shorter than the keys.
std::string mask_text(const Shape& mask, const std::string& query) {
  const std::vector<std::string> groups{"b", "(gr)", query, "1"};
  std::string text;
  for (std::size_t d = 0; d < mask.size(); ++d) {
    text += mask[d] == 1 ? "1" : groups[d + groups.size() - mask.size()];
  }
  return text;
}

}  // namespace

ShardingRule attention(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const bool packed = op.rank() == 3;  // heads within the last dimension
  const std::int64_t heads = packed ? op.node.int_attribute("kv_num_heads", 1) : shapes[1][1];
  const std::int64_t query_heads = packed ? op.node.int_attribute("q_num_heads", 1) : shapes[0][1];
  require(heads > 0 && query_heads % heads == 0, "query heads are a multiple of the others");
  // A causal mask counts positions from the first query.
  const bool counts_positions = op.node.int_attribute("is_causal", 0) != 0 ||
                                op.node.int_attribute("left_window_size", -1) >= 0 ||
                                op.node.int_attribute("right_window_size", -1) >= 0;
  const std::string s = counts_positions ? "1" : "s";
  const std::string keys = "bg11";
  const std::string values = "bg1v";
  std::vector<std::string> inputs{packed ? "b" + s + "(gre)" : "b(gr)" + s + "1",
                                  packed ? "b1(ge)" : keys, packed ? "b1(gv)" : values};
  inputs.push_back(shapes.size() > 3 ? mask_text(shapes[3], s) : "");
  inputs.insert(inputs.end(), {keys, values, "b"});
  std::vector<std::string> outputs{packed ? "b" + s + "(grv)" : "b(gr)" + s + "v", keys, values,
                                   "b(gr)" + s + "1"};

  // Where each device has one head of keys, it may have a share of those that they serve.
  std::vector<FactorOptions> options{
      {.letter = 'g', .never_empty = true, .size = heads},
      {.letter = 'r', .never_empty = true, .size = query_heads / heads},
      {'v', packed ? FactorKind::whole : FactorKind::spatial, true}};
  if (packed) options.push_back({'e', FactorKind::whole});
  ShardingRule rule = op.rule(inputs, outputs, options);
  if (packed) {
    rule.localize = [](LocalNode& local) {
      const std::int64_t local_heads = local.extent('g');
      local.node.attributes["kv_num_heads"] = local_heads;
      local.node.attributes["q_num_heads"] = local_heads * local.extent('r');
    };
  }
  return rule;
}

/// Angles come by batch and position, or are looked up in tables, which are whole.
ShardingRule rotary_embedding(const Operator& op) {
  const bool packed = op.rank() == 3;
  const std::string text = packed ? "bs(hd)" : "bhs1";
  const std::string angles = op.has_input(3) ? "11" : "bs1";
  std::vector<FactorOptions> options;
  if (packed) {
    options.push_back(
        {.letter = 'h', .never_empty = true, .size = op.node.int_attribute("num_heads", 1)});
    options.push_back({'d', FactorKind::whole});
  }
  const ShardingRule rule = op.rule({text, angles, angles, "bs"}, {text}, options);
  return packed ? with_count(rule, 'h', "num_heads") : rule;
}

}  // namespace autopar::sharding::rules
