#include "search/tensor_versions.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace autopar::search {

namespace {

using Set = TensorVersions::Set;

/// The number of sets of 1 to `most` of `specs` specs, or, where that is above `most_sets`, some
/// number above it.
std::size_t count_sets(std::size_t specs, std::size_t most, std::size_t most_sets) {
  std::size_t count = 0;
  std::size_t of_size = 1;  // specs choose size
  for (std::size_t size = 1; size <= std::min(specs, most) && count <= most_sets; ++size) {
    of_size = of_size * (specs - size + 1) / size;
    count += of_size;
  }
  return count;
}

/// Sets of 1 to `most` specs; none where they are more than `most_sets`.
std::vector<Set> sets_of(std::size_t specs, std::size_t most, std::size_t most_sets) {
  const std::size_t count = count_sets(specs, most, most_sets);
  if (most == 0 || count > most_sets) return {};
  std::vector<Set> sets;
  sets.reserve(count);
  // By size, each set from a smaller one and a later spec.
  for (std::size_t s = 0; s < specs; ++s) sets.push_back({.specs = {s}});
  for (std::size_t k = 0; sets.size() < count; ++k) {
    for (std::size_t s = sets[k].specs.back() + 1; s < specs; ++s) {
      sets.push_back(sets[k]);
      sets.back().specs.push_back(s);
    }
  }
  return sets;
}

/// Keeps the sets that have a spec for every reader; one that may read what is not in `specs` needs
/// none.
void keep_serving(std::span<const SpecList* const> readers, TensorVersions& versions) {
  for (const SpecList* read : std::set<const SpecList*>(readers.begin(), readers.end())) {
    const bool is_served =
        std::ranges::any_of(*read, [&](const auto& spec) { return !versions.has(spec); });
    if (is_served) continue;
    std::vector<char> serves(versions.specs.size(), 0);
    for (const auto& spec : *read) serves[versions.index_of(spec)] = 1;
    std::erase_if(versions.sets, [&](const Set& set) {
      return std::ranges::none_of(set.specs, [&](std::size_t spec) { return serves[spec] != 0; });
    });
  }
}

/// The specs that several readers may read, ascending.
SpecList specs_shared(std::span<const SpecList* const> readers) {
  std::map<sharding::TensorShardSpec, std::size_t> readers_of;
  for (const SpecList* read : readers)
    for (const auto& spec : std::set(read->begin(), read->end())) ++readers_of[spec];
  SpecList shared;
  for (const auto& [spec, count] : readers_of)
    if (count > 1) shared.push_back(spec);
  return shared;
}

/// Makes the versions; they have no sets if there are too many of up to `most` specs.
TensorVersions versions_of(SpecList specs, std::span<const SpecList* const> readers,
                           const SpecList& made, std::size_t most, std::size_t most_sets) {
  TensorVersions versions{.specs = std::move(specs)};
  const std::size_t count = versions.specs.size();
  if (count_sets(count, most, most_sets) > most_sets) return versions;
  versions.sets = sets_of(count, most, most_sets);
  versions.sets.emplace_back();  // for readers of what is not in it
  keep_serving(readers, versions);
  if (readers.size() == 1) return versions;
  const std::set<sharding::TensorShardSpec> distinct(made.begin(), made.end());
  versions.alone.assign(distinct.begin(), distinct.end());
  return versions;
}

/// The most specs that a set needs.
std::size_t most_in_set(std::span<const SpecList* const> readers) {
  return std::max<std::size_t>(1, readers.size() - 1);
}

}  // namespace

bool TensorVersions::is_in(std::size_t spec, std::size_t set) const {
  return std::ranges::find(sets[set].specs, spec) != sets[set].specs.end();
}

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

TensorVersions counted_versions(std::span<const SpecList* const> readers, std::vector<int> kinds,
                                std::size_t most_sets) {
  TensorVersions versions{.specs = specs_read(readers), .kinds = std::move(kinds)};
  versions.sets = sets_of(versions.specs.size(), readers.size(), most_sets);
  keep_serving(readers, versions);
  if (versions.kinds.empty()) return versions;
  for (Set& set : std::exchange(versions.sets, {})) {
    std::set<int> kinds_in_set;
    for (const std::size_t spec : set.specs) kinds_in_set.insert(versions.kinds[spec]);
    for (const int kind : kinds_in_set) versions.sets.push_back({set.specs, kind});
    versions.sets.push_back(std::move(set));
  }
  if (versions.sets.size() > most_sets / 2) versions.sets.clear();
  return versions;
}

TensorVersions tensor_versions(std::span<const SpecList* const> readers, const SpecList& made,
                               std::size_t most_sets) {
  return versions_of(specs_read(readers), readers, made, most_in_set(readers), most_sets);
}

TensorVersions shared_versions(std::span<const SpecList* const> readers, const SpecList& made,
                               std::size_t most_sets) {
  return versions_of(specs_shared(readers), readers, made, most_in_set(readers), most_sets);
}

TensorVersions relaxed_versions(std::span<const SpecList* const> readers, const SpecList& made,
                                std::size_t most_sets) {
  SpecList shared = specs_shared(readers);
  std::size_t most = most_in_set(readers);
  while (most > 0 && count_sets(shared.size(), most, most_sets) > most_sets) --most;
  TensorVersions versions = versions_of(std::move(shared), readers, made, most, most_sets);
  // If readers need more than `most` different specs, at most this many of them share one.
  versions.readers_of_copy = static_cast<int>(std::max<std::size_t>(1, readers.size() - most));
  return versions;
}

}  // namespace autopar::search
