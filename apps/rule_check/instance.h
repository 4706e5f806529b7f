#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "sharding/discovery/shard_runner.h"

namespace autopar::rule_check {

/// An operator instance in one line, its operands after its name and attributes:
///
///     Gather(axis=1) 4x6 i:2x3<6
///     com.microsoft::FastGelu 4x6
///     GroupNormalization@18(num_groups=2) 2x4x3 2 2
///     Split(axis=1;num_outputs=2) 4x6 -> 2
///
/// `@` has the opset where it is not the newest; attributes are integers, numbers with a point,
/// texts, or lists in brackets. An operand is a shape (`.` for a scalar), before it a type (b, i,
/// i32, i8, u8, h, d; float32 otherwise) and `+` where its numbers are positive, after it `<6` for
/// whole numbers from 0 to 5, `~6` for those from -6 to 5, `@-1..1` for numbers in a range. `[2,3]`
/// and `=2` are constants of integers, `=0.5` one of float32, `u8=3` of uint8; `-` is left out. `->
/// 2` gives the number of outputs.
struct Instance {
  std::string text;
  std::string op_type;  ///< qualified
  graph::Graph graph;   ///< of one node, its outputs' types and shapes inferred
  /// The range of each graph input's numbers.
  struct Numbers {
    double low = -2;
    double high = 2;
  };
  std::vector<Numbers> numbers;
};

/// Throws Error that quotes the text.
Instance parse_instance(std::string_view text);

/// "com.microsoft::FastGelu"
std::string operator_of(std::string_view text);

/// Random inputs, by graph.inputs.
std::vector<graph::Tensor> random_inputs(const Instance& instance,
                                         const sharding::ShardRunner& runner, std::mt19937& random);

}  // namespace autopar::rule_check
