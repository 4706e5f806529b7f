#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sharding/rules/operator.h"

namespace autopar::sharding {

/// The rule of one operator instance. Asked only for operators in the form of opset 18 or newer.
using RuleFunction = ShardingRule(const rules::Operator& op);

/// The rules that the table names, grouped by the file that has them. What a rule calls whole is
/// never split.
namespace rules {

// table.cpp
RuleFunction replicated;
// elementwise.cpp
RuleFunction elementwise, identity, dropout, cast_like;
// matmul.cpp
RuleFunction matmul, gemm, einsum;
// along_axis.cpp
RuleFunction along_last_axis, local_response, split, softmax, log_softmax, lp_normalization,
    arg_reduction, cum_sum, trilu, one_hot, reverse_sequence, tensor_scatter, dft, samples,
    matrices;
// normalization.cpp
RuleFunction layer_normalization, batch_normalization, instance_normalization,
    mean_variance_normalization, group_normalization;
// reduction.cpp
RuleFunction reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_l2, reduce_log_sum,
    reduce_log_sum_exp, reduce_whole;
// reshape.cpp
RuleFunction reshape, squeeze, change_of_rank;
// data_movement.cpp
RuleFunction transpose, expand, slice, concat, pad, tile, depth_to_space, space_to_depth, col_to_im;
// indexing.cpp
RuleFunction gather, gather_elements, gather_nd, scatter_elements, scatter_nd;
// convolution.cpp
RuleFunction convolution, transposed_convolution, pool, global_average_pool, global_max_pool,
    deformable_convolution;
// sampling.cpp
RuleFunction resize, grid_sample, affine_grid, roi_pool;
// recurrent.cpp
RuleFunction recurrent;
// quantized.cpp
RuleFunction quantize, matmul_integer, qlinear_matmul, convolution_integer, qlinear_convolution,
    matmul_n_bits;
// attention.cpp
RuleFunction attention, rotary_embedding;
// own.cpp: autopar's own operators (graph/own_operators.h)
RuleFunction tree_sums, expert_matmul_n_bits;

}  // namespace rules

/// ShardingRule::linear of one operator instance. sharding_rule drops inputs that are left out, and
/// groups that types forbid.
using LinearFunction = std::vector<std::vector<int>>(const rules::Operator& op);

struct RuleEntry {
  std::string_view domain;
  std::string_view op_type;
  RuleFunction* rule;
  LinearFunction* linear = nullptr;  ///< null where it is linear in nothing
};

/// Every operator that can be split.
std::span<const RuleEntry> rule_table();
/// Null where the operator has no rule.
const RuleEntry* find_rule(std::string_view domain, std::string_view op_type);

}  // namespace autopar::sharding
