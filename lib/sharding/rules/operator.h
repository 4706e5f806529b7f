#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/sharding_rule.h"

/// What rules are written with. In a rule's text, `1` makes a dimension whole.
namespace autopar::sharding::rules {

/// One operator instance, as its rule sees it.
struct Operator {
  const graph::Graph& graph;
  const graph::Node& node;
  std::vector<Shape> inputs = input_shapes(graph, node);
  std::vector<Shape> outputs = output_shapes(graph, node);

  /// The first input's type and number of dimensions.
  graph::DataType type() const { return graph.value(node.inputs[0]).type; }
  std::size_t rank() const { return inputs[0].size(); }
  bool has_input(std::size_t i) const;
  bool has_output(std::size_t i) const;
  /// The dimension of the first input that attribute `axis` names.
  std::size_t axis(std::int64_t otherwise) const;
  /// The integers of a constant input, nullopt where it is left out or no constant.
  std::optional<std::vector<std::int64_t>> constant_ints(std::size_t i) const;
  /// Whether only a run tells the input's integers.
  bool is_computed(std::size_t i) const { return has_input(i) && !constant_ints(i); }
  /// The dimensions of the first input that `axes` name: all, in order, where there are none.
  std::vector<std::size_t> dimensions(const std::optional<std::vector<std::int64_t>>& axes) const;

  /// The rule by a text for each tensor. Tensors without a text are whole; a left-out one's text is
  /// ignored.
  ShardingRule rule(std::vector<std::string> input_texts, std::vector<std::string> output_texts,
                    const std::vector<FactorOptions>& options = {}) const;
};

/// `count` different letters in alphabetical order, none of `except`.
std::string letters(std::size_t count, std::string_view except = "");
/// Factors of one kind.
std::vector<FactorOptions> options_of(std::string_view letters, FactorKind kind,
                                      bool never_empty = false);
/// `count` whole dimensions.
inline std::string whole(std::size_t count) { return std::string(count, '1'); }
/// The last `rank` letters, whole dimensions before them where there are too few: how a tensor of
/// that rank is broadcast.
std::string aligned(std::string_view text, std::size_t rank);
/// `text` with dimension `dim` made whole.
std::string with_whole(std::string text, std::size_t dim);
/// `axis` of a tensor of that rank, counted from the front.
std::size_t dimension(std::int64_t axis, std::size_t rank);

/// Only the share of the factor that begins at 0 adds input `bias` to its sum.
void add_bias_once(LocalNode& local, char factor, std::size_t bias);
/// The rule of an operator with an attribute that counts the elements of a factor.
ShardingRule with_count(ShardingRule rule, char factor, const std::string& attribute);
/// Puts these integers in the place of an input, such as a shape.
void set_ints(LocalNode& local, std::size_t input, const char* name,
              const std::vector<std::int64_t>& ints);

}  // namespace autopar::sharding::rules
