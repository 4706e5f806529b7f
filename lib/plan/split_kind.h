#pragma once

#include <array>
#include <string_view>

#include "sharding/op_shard_spec.h"

namespace autopar::plan {

/// How a strategy splits an operator, as a picture tells it: by where the mesh axes are in the
/// first output. `sum` splits what the operator adds up, so that outputs are reduced or stay
/// partial; `several` is more than one of these at once.
enum class SplitKind { whole, first, middle, last, sum, several };
inline constexpr std::array split_kinds = {SplitKind::whole, SplitKind::first, SplitKind::middle,
                                           SplitKind::last,  SplitKind::sum,   SplitKind::several};
std::string_view name_of(SplitKind kind);  ///< "whole", "first", ...

SplitKind split_kind(const sharding::OpShardSpec& strategy);

}  // namespace autopar::plan
