#include "search/tensor_versions.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace autopar::search {

namespace {

constexpr std::size_t most_specs = 64;  // a bit each

/// Sets of 1 to `most` of `specs` specs; none where they are more than `most_sets`.
std::vector<std::uint64_t> sets_of(std::size_t specs, std::size_t most, std::size_t most_sets) {
  if (specs > most_specs) return {};
  std::size_t count = 0;
  std::size_t of_size = 1;  // specs choose size
  for (std::size_t size = 1; size <= std::min(specs, most); ++size) {
    of_size = of_size * (specs - size + 1) / size;
    count += of_size;
    if (count > most_sets) return {};
  }
  std::vector<std::uint64_t> sets;
  // By size, each set from a smaller one and a later spec.
  for (std::size_t s = 0; s < specs; ++s) sets.push_back(std::uint64_t{1} << s);
  for (std::size_t k = 0; sets.size() < count; ++k) {
    const auto smaller = sets[k];
    for (std::size_t s = 0; s < specs; ++s) {
      if ((smaller >> s) == 0) sets.push_back(smaller | std::uint64_t{1} << s);
    }
  }
  return sets;
}

/// The sets that have a spec for every reader; one that may read what is not in `specs` needs none.
void keep_serving(std::span<const SpecList* const> readers, const TensorVersions& versions,
                  std::vector<std::uint64_t>& sets) {
  for (const SpecList* read : std::set<const SpecList*>(readers.begin(), readers.end())) {
    std::uint64_t serving = 0;
    bool is_served = false;
    for (const auto& spec : *read) {
      if (versions.has(spec))
        serving |= std::uint64_t{1} << versions.index_of(spec);
      else
        is_served = true;
    }
    if (!is_served) std::erase_if(sets, [&](std::uint64_t set) { return (set & serving) == 0; });
  }
}

}  // namespace

std::size_t TensorVersions::index_of(const sharding::TensorShardSpec& spec) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(specs, spec) - specs.begin());
}

bool TensorVersions::has(const sharding::TensorShardSpec& spec) const {
  return std::ranges::binary_search(specs, spec);
}

bool TensorVersions::can_make(const sharding::TensorShardSpec& from, std::size_t set) const {
  if (kinds.empty()) return true;
  const std::size_t made = index_of(from);
  const bool is_there = made < specs.size() && specs[made] == from && is_in(made, set);
  return sets[set].made == (is_there ? kinds[made] : no_kind);
}

SpecList specs_read(std::span<const SpecList* const> readers) {
  std::set<sharding::TensorShardSpec> specs;
  for (const SpecList* read : std::set<const SpecList*>(readers.begin(), readers.end()))
    specs.insert(read->begin(), read->end());
  return {specs.begin(), specs.end()};
}

TensorVersions tensor_versions(std::span<const SpecList* const> readers, std::vector<int> kinds,
                               std::size_t most_sets) {
  TensorVersions versions{.specs = specs_read(readers), .kinds = std::move(kinds), .sets = {}};
  auto sets = sets_of(versions.specs.size(), readers.size(), most_sets);
  if (!sets.empty()) keep_serving(readers, versions, sets);
  for (const std::uint64_t specs : sets) {
    versions.sets.push_back({specs, TensorVersions::no_kind});
    std::set<int> kinds_in_set;
    for (std::size_t v = 0; v < versions.kinds.size(); ++v) {
      if (specs >> v & 1U) kinds_in_set.insert(versions.kinds[v]);
    }
    for (const int kind : kinds_in_set) versions.sets.push_back({specs, kind});
  }
  if (versions.sets.size() > (versions.kinds.empty() ? most_sets : most_sets / 2)) {
    versions.sets.clear();
  }
  return versions;
}

TensorVersions shared_versions(std::span<const SpecList* const> readers, std::size_t most_sets) {
  std::map<sharding::TensorShardSpec, std::size_t> readers_of;
  for (const SpecList* read : readers)
    for (const auto& spec : std::set(read->begin(), read->end())) ++readers_of[spec];
  TensorVersions versions;
  for (const auto& [spec, count] : readers_of)
    if (count > 1) versions.specs.push_back(spec);
  auto sets = sets_of(versions.specs.size(), readers.size(), most_sets);
  if (sets.empty()) return versions;
  sets.push_back(0);
  keep_serving(readers, versions, sets);
  for (const std::uint64_t set : sets) versions.sets.push_back({set, TensorVersions::no_kind});
  return versions;
}

}  // namespace autopar::search
