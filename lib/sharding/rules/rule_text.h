#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/sharding_rule.h"

/// Helpers that write a rule's text for tensors of any rank. In texts, `1` makes a dimension whole.
namespace autopar::sharding::rules {

/// `count` different letters in alphabetical order, none of `except`.
std::string letters(std::size_t count, std::string_view except = "");
/// The last `rank` letters, whole dimensions before them where there are too few: how a tensor of
/// that rank is broadcast.
std::string aligned(std::string_view text, std::size_t rank);
/// `text` with dimension `dim` made whole.
std::string with_whole(std::string text, std::size_t dim);
/// A whole tensor's text.
std::string whole(const Shape& shape);
/// `axis` of a tensor of that rank, counted from the front.
std::size_t dimension(std::int64_t axis, std::size_t rank);
/// The dimension that attribute `axis` names.
std::size_t axis_attribute(const graph::Node& node, std::size_t rank, std::int64_t otherwise);

bool has_input(const graph::Node& node, std::size_t input);
bool has_output(const graph::Node& node, std::size_t output);
/// The integers of a constant input, nullopt where it is left out or no constant.
std::optional<std::vector<std::int64_t>> constant_ints(const graph::Graph& graph,
                                                       const graph::Node& node, std::size_t input);

/// make_rule for this node's shapes.
ShardingRule node_rule(const graph::Graph& graph, const graph::Node& node, std::string_view text,
                       const std::vector<FactorOptions>& options = {});
/// node_rule by a text for each tensor. Tensors without a text are whole; a left-out one's text is
/// ignored.
ShardingRule node_rule(const graph::Graph& graph, const graph::Node& node,
                       std::vector<std::string> inputs, std::vector<std::string> outputs,
                       const std::vector<FactorOptions>& options = {});

/// Index of the factor of that letter.
std::size_t factor_index(const ShardingRule& rule, char letter);

/// Localizes an operator that adds input `bias` to a sum over `factor`: only the share that begins
/// at 0 keeps it.
void add_bias_once(ShardingRule& rule, std::size_t factor, std::size_t bias);

/// Localizes an operator with an attribute that counts the elements of a factor.
void localize_count(ShardingRule& rule, char letter, const std::string& attribute);

/// Appends the node to the shard with a tensor of these integers as input `input`: for operators
/// whose local shape or the like is an input.
void append_with_ints(LocalNode& local, std::size_t input, std::string_view name,
                      const std::vector<std::int64_t>& ints);

}  // namespace autopar::sharding::rules
