#pragma once

#include <cstdint>

namespace autopar::graph {

/// The domain of the operators that bodies need and ONNX does not have. Their schemas are lines of
/// operator_table.cpp; each has kernels and a sharding rule.
///
///   TreeSums(X, features, splits, modes, branches, targets, weights) -> Y
///       Decision trees, one a row of the tables, which begin at their node 0. A node compares
///       element `features` of a row of X [rows, features] with `splits`, by the comparison of
///       `modes`, and goes on to the first of its `branches` where that is true, else to the
///       second. A leaf's branches are the first of its votes and their count: each adds its
///       `weights` to element `targets` of the row of Y [rows, n_targets]. `aggregate` (string) is
///       SUM, MIN or MAX; what has no vote is 0. X, splits, weights and Y are of one type.
///   ExpertMatMulNBits(A, indices, B, scales, zero_points?, bias?) -> Y
///       Row r of A [rows, depth] times the transposed matrix indices[r] of B, of which
///       MatMulNBits tells the form: B [experts, columns, bytes], scales [experts, columns,
///       blocks], zero_points [experts, columns, bytes], bias [experts, columns]. `bits` and
///       `block_size` (ints; 0: one block for all of the depth). A row whose index names none of
///       the experts is zeros.
inline constexpr const char* own_domain = "autopar.ops";

/// No weight has longer blocks with a scale each; what comes from files is held to it.
inline constexpr std::int64_t largest_block = std::int64_t{1} << 30;

/// A tree's node: what TreeSums' `modes` hold. NaN makes the comparison true where
/// `missing_is_true` is added.
enum class TreeMode { less_equal, less, greater_equal, greater, equal, not_equal, leaf };
inline constexpr int missing_is_true = 8;

}  // namespace autopar::graph
