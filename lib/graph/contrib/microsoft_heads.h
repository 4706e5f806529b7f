#pragma once

#include "graph/contrib/body_builder.h"

/// Parts that the bodies of com.microsoft share.
namespace autopar::graph::microsoft {

/// Queries, keys and values on their way to an Attention. Either all have three dimensions, heads
/// within the last, or all have four, [batch, heads, sequence, elements].
struct Heads {
  Operand q = {};
  Operand k = {};
  Operand v = {};
  Operand mask = {};  ///< added to scores, or boolean; may be left out
  Operand past_k = {};
  Operand past_v = {};
  Operand lengths = {};  ///< of each batch's keys
  std::int64_t batch = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;  ///< with those of the past
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t depth = 0;
  std::int64_t value_depth = 0;
  bool four_dimensions = false;
  bool causal = false;
  std::int64_t left_window = -1;
  float softcap = 0;
};

/// [batch, heads, sequence, elements] of [batch, sequence, heads x elements].
Operand split_heads(const Operand& x, const Shape& split);

/// Makes the output, [batch, sequence, heads x elements]; returns the present keys and values,
/// where there is a past.
Operands attend(BodyBuilder& body, const Heads& of);

/// Makes the outputs "present_key" and "present_value" of keys and values that have no past.
void add_presents(BodyBuilder& body, const Heads& of);

/// A scale or zero point as ONNX's operators take it: a scalar for one number, which may stand in a
/// vector. Left out where the call leaves it out.
Operand quantisation_parameter(BodyBuilder& body, const std::string& name);

}  // namespace autopar::graph::microsoft
