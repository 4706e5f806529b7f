#pragma once

#include "sharding/sharding_rule.h"

/// The rule functions that rules/table.cpp names, grouped by the file that has them. What a rule
/// calls whole is never split.
namespace autopar::sharding::rules {

// elementwise.cpp
ShardingRule elementwise(const graph::Graph& graph, const graph::Node& node);
ShardingRule identity(const graph::Graph& graph, const graph::Node& node);
ShardingRule dropout(const graph::Graph& graph, const graph::Node& node);
ShardingRule cast_like(const graph::Graph& graph, const graph::Node& node);

// matmul.cpp
ShardingRule matmul(const graph::Graph& graph, const graph::Node& node);
ShardingRule gemm(const graph::Graph& graph, const graph::Node& node);
ShardingRule einsum(const graph::Graph& graph, const graph::Node& node);

// along_axis.cpp
ShardingRule along_last_axis(const graph::Graph& graph, const graph::Node& node);
ShardingRule softmax(const graph::Graph& graph, const graph::Node& node);
ShardingRule log_softmax(const graph::Graph& graph, const graph::Node& node);
ShardingRule lp_normalization(const graph::Graph& graph, const graph::Node& node);
ShardingRule arg_reduction(const graph::Graph& graph, const graph::Node& node);
ShardingRule cum_sum(const graph::Graph& graph, const graph::Node& node);
ShardingRule trilu(const graph::Graph& graph, const graph::Node& node);
ShardingRule one_hot(const graph::Graph& graph, const graph::Node& node);
ShardingRule reverse_sequence(const graph::Graph& graph, const graph::Node& node);
ShardingRule tensor_scatter(const graph::Graph& graph, const graph::Node& node);
ShardingRule dft(const graph::Graph& graph, const graph::Node& node);
ShardingRule samples(const graph::Graph& graph, const graph::Node& node);
ShardingRule matrices(const graph::Graph& graph, const graph::Node& node);

// normalization.cpp
ShardingRule layer_normalization(const graph::Graph& graph, const graph::Node& node);
ShardingRule batch_normalization(const graph::Graph& graph, const graph::Node& node);
ShardingRule instance_normalization(const graph::Graph& graph, const graph::Node& node);
ShardingRule mean_variance_normalization(const graph::Graph& graph, const graph::Node& node);
ShardingRule group_normalization(const graph::Graph& graph, const graph::Node& node);

// reduction.cpp
ShardingRule reduce_sum(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_mean(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_max(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_min(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_l2(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_log_sum(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_log_sum_exp(const graph::Graph& graph, const graph::Node& node);
ShardingRule reduce_whole(const graph::Graph& graph, const graph::Node& node);

// reshape.cpp
ShardingRule reshape(const graph::Graph& graph, const graph::Node& node);
ShardingRule squeeze(const graph::Graph& graph, const graph::Node& node);
ShardingRule change_of_rank(const graph::Graph& graph, const graph::Node& node);

// data_movement.cpp
ShardingRule transpose(const graph::Graph& graph, const graph::Node& node);
ShardingRule expand(const graph::Graph& graph, const graph::Node& node);
ShardingRule slice(const graph::Graph& graph, const graph::Node& node);
ShardingRule split(const graph::Graph& graph, const graph::Node& node);
ShardingRule concat(const graph::Graph& graph, const graph::Node& node);
ShardingRule pad(const graph::Graph& graph, const graph::Node& node);
ShardingRule tile(const graph::Graph& graph, const graph::Node& node);
ShardingRule depth_to_space(const graph::Graph& graph, const graph::Node& node);
ShardingRule space_to_depth(const graph::Graph& graph, const graph::Node& node);
ShardingRule col_to_im(const graph::Graph& graph, const graph::Node& node);

// indexing.cpp
ShardingRule gather(const graph::Graph& graph, const graph::Node& node);
ShardingRule gather_elements(const graph::Graph& graph, const graph::Node& node);
ShardingRule gather_nd(const graph::Graph& graph, const graph::Node& node);
ShardingRule scatter_elements(const graph::Graph& graph, const graph::Node& node);
ShardingRule scatter_nd(const graph::Graph& graph, const graph::Node& node);

// convolution.cpp
ShardingRule convolution(const graph::Graph& graph, const graph::Node& node);
ShardingRule transposed_convolution(const graph::Graph& graph, const graph::Node& node);
ShardingRule pool(const graph::Graph& graph, const graph::Node& node);
ShardingRule global_average_pool(const graph::Graph& graph, const graph::Node& node);
ShardingRule global_max_pool(const graph::Graph& graph, const graph::Node& node);
ShardingRule local_response(const graph::Graph& graph, const graph::Node& node);
ShardingRule deformable_convolution(const graph::Graph& graph, const graph::Node& node);

// sampling.cpp
ShardingRule resize(const graph::Graph& graph, const graph::Node& node);
ShardingRule grid_sample(const graph::Graph& graph, const graph::Node& node);
ShardingRule affine_grid(const graph::Graph& graph, const graph::Node& node);
ShardingRule roi_pool(const graph::Graph& graph, const graph::Node& node);

// recurrent.cpp
ShardingRule recurrent(const graph::Graph& graph, const graph::Node& node);

// quantized.cpp
ShardingRule quantize(const graph::Graph& graph, const graph::Node& node);
ShardingRule matmul_integer(const graph::Graph& graph, const graph::Node& node);
ShardingRule qlinear_matmul(const graph::Graph& graph, const graph::Node& node);
ShardingRule convolution_integer(const graph::Graph& graph, const graph::Node& node);
ShardingRule qlinear_convolution(const graph::Graph& graph, const graph::Node& node);
ShardingRule matmul_n_bits(const graph::Graph& graph, const graph::Node& node);

// attention.cpp
ShardingRule attention(const graph::Graph& graph, const graph::Node& node);
ShardingRule rotary_embedding(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding::rules
