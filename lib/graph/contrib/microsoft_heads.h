#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/contrib/body_builder.h"

/// Parts that the bodies of com.microsoft's attention operators share.
namespace autopar::graph::microsoft {

using Names = std::vector<std::string>;

/// Queries, keys and values on their way to an Attention. Either all have three dimensions, heads
/// within the last, or all have four, [batch, heads, sequence, elements].
struct Heads {
  std::string q = "q";
  std::string k = "k";
  std::string v = "v";
  std::string mask;  ///< added to scores, or boolean; may be empty
  std::string past_k;
  std::string past_v;
  std::string lengths;  ///< of each batch's keys
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

/// Throw Error for an input that is given, or an attribute that is not `usual`.
void refuse_input(const BodyBuilder& body, std::string_view input);

void refuse_attribute(const BodyBuilder& body, std::string_view name, std::int64_t usual);

/// `to`, of [batch, heads, sequence, elements], from `from`, of [batch, sequence, heads x
/// elements].
void split_heads(BodyBuilder& body, const std::string& from, const std::string& to, Shape split);

/// Splits what lies side by side along the last dimension into outputs of these sizes.
void split_last(BodyBuilder& body, const std::string& from, const Names& to,
                const std::vector<std::int64_t>& sizes);

/// `output`, of [batch, sequence, heads x elements].
void attend(BodyBuilder& body, const Heads& of, const Names& presents);

/// "present_key" and "present_value" of keys and values that have no past.
void add_presents(BodyBuilder& body, const Heads& of);

}  // namespace autopar::graph::microsoft
