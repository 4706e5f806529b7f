#include "plan/split_kind.h"

#include <algorithm>
#include <set>

namespace autopar::plan {

namespace {

using sharding::TensorShardSpec;

bool is_split(const TensorShardSpec& spec) {
  return spec.is_partial() ||
         std::ranges::any_of(spec.dims, [](const auto& axes) { return !axes.empty(); });
}

SplitKind kind_of_dim(std::size_t dim, std::size_t num_dims) {
  if (dim == 0) return SplitKind::first;
  return dim + 1 == num_dims ? SplitKind::last : SplitKind::middle;
}

}  // namespace

std::string_view name_of(SplitKind kind) {
  constexpr std::array<std::string_view, split_kinds.size()> names = {"whole", "first", "middle",
                                                                      "last",  "sum",   "several"};
  return names[static_cast<std::size_t>(kind)];
}

SplitKind split_kind(const sharding::OpShardSpec& strategy) {
  std::set<SplitKind> kinds;
  if (!strategy.computed.empty()) {
    const auto& dims = strategy.computed.front().dims;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!dims[d].empty()) kinds.insert(kind_of_dim(d, dims.size()));
  }
  if (std::ranges::any_of(strategy.computed, &TensorShardSpec::is_partial))
    kinds.insert(SplitKind::sum);
  if (kinds.size() > 1) return SplitKind::several;
  if (kinds.size() == 1) return *kinds.begin();
  return std::ranges::any_of(strategy.inputs, is_split) ? SplitKind::sum : SplitKind::whole;
}

}  // namespace autopar::plan
