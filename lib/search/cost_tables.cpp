#include "search/cost_tables.h"

#include <cmath>

#include "assignment/cost_table.h"
#include "base/error.h"

namespace autopar::search {

using assignment::Cost;
using assignment::CostTable;
using graph::Value;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

const SpecList* CostTables::specs(const OperatorStrategies& strategies, std::size_t place,
                                  SpecList OpShardSpec::*tensors) {
  const SpecList*& list = lists_[{&strategies, place, tensors == &OpShardSpec::inputs}];
  if (list) return list;
  SpecList specs;
  for (const OpShardSpec& choice : strategies.choices) specs.push_back((choice.*tensors)[place]);
  return list = shared(std::move(specs));
}

const TensorVersions& CostTables::counted_versions(const std::vector<const SpecList*>& read,
                                                   const std::vector<int>& kinds) {
  const auto [entry, is_new] = counted_versions_.try_emplace({read, kinds});
  if (is_new) entry->second = search::counted_versions(read, kinds);
  return entry->second;
}

const TensorVersions& CostTables::versions(const std::vector<const SpecList*>& read,
                                           const SpecList* made) {
  const auto [entry, is_new] = versions_.try_emplace({read, made});
  if (is_new) entry->second = tensor_versions(read, *made);
  return entry->second;
}

const TensorVersions& CostTables::shared_versions(const std::vector<const SpecList*>& read,
                                                  const SpecList* made) {
  const auto [entry, is_new] = shared_versions_.try_emplace({read, made});
  if (is_new) entry->second = search::shared_versions(read, *made);
  return entry->second;
}

const TensorVersions& CostTables::relaxed_versions(const std::vector<const SpecList*>& read,
                                                   const SpecList* made) {
  const auto [entry, is_new] = relaxed_versions_.try_emplace({read, made});
  if (is_new) entry->second = search::relaxed_versions(read, *made);
  return entry->second;
}

CostTable CostTables::connecting(const Value& value, const SpecList* made, const SpecList* read) {
  CostTable& table = connecting_[{made, read, cost_.as_moved(value)}];
  if (!table.empty()) return table;
  return table = connect_costs(value, *made, *read);
}

CostTable CostTables::making(const Value& value, const SpecList* made,
                             const TensorVersions& versions) {
  CostTable& table = making_[{made, &versions, cost_.as_moved(value)}];
  if (!table.empty()) return table;
  const std::vector<Cost> all = connect_costs(value, *made, versions.specs);
  std::vector<Cost> costs;
  for (std::size_t m = 0; m < made->size(); ++m) {
    const TensorShardSpec& from = (*made)[m];
    const std::span<const Cost> each =
        std::span(all).subspan(m * versions.specs.size(), versions.specs.size());
    for (std::size_t set = 0; set < versions.sets.size(); ++set) {
      Cost sum = versions.can_make(from, set) ? 0 : assignment::impossible;
      for (const std::size_t spec : versions.sets[set].specs)
        sum = assignment::plus(sum, each[spec]);
      costs.push_back(sum);
    }
    for (const TensorShardSpec& own : versions.alone)
      costs.push_back(own == from ? 0 : assignment::impossible);
  }
  return table = std::move(costs);
}

CostTable CostTables::making_alone(const Value& value, const SpecList* made, const SpecList* read,
                                   const TensorVersions& versions) {
  CostTable& table = making_alone_[{made, read, &versions, cost_.as_moved(value)}];
  if (!table.empty()) return table;
  std::vector<Cost> costs = connect_costs(value, *made, *read);
  for (std::size_t cell = 0; cell < costs.size(); ++cell)
    if (versions.has((*read)[cell % read->size()])) costs[cell] = 0;
  return table = std::move(costs);
}

CostTable CostTables::reading(const Value& value, const TensorVersions& versions,
                              const SpecList* read) {
  CostTable& table = reading_[{&versions, read, cost_.as_moved(value)}];
  if (!table.empty()) return table;
  std::vector<Cost> costs;
  for (std::size_t set = 0; set < versions.sets.size(); ++set) {
    for (const TensorShardSpec& spec : *read) {
      const bool can_read = !versions.has(spec) || versions.is_in(versions.index_of(spec), set);
      costs.push_back(can_read ? 0 : assignment::impossible);
    }
  }
  const std::vector<Cost> copies = connect_costs(value, versions.alone, *read);
  for (std::size_t cell = 0; cell < copies.size(); ++cell) {
    const Cost copy = copies[cell];
    const bool is_shared = versions.has((*read)[cell % read->size()]);
    if (!is_shared)
      costs.push_back(0);  // making_alone has its price
    else
      costs.push_back(copy < assignment::impossible ? copy / versions.readers_of_copy : copy);
  }
  return table = std::move(costs);
}

Cost CostTables::connect_cost(const Value& value, const TensorShardSpec& from,
                              const TensorShardSpec& to) {
  return connect_costs(value, {&from, 1}, {&to, 1}).front();
}

std::vector<Cost> CostTables::connect_costs(const Value& value,
                                            std::span<const TensorShardSpec> from,
                                            std::span<const TensorShardSpec> to) {
  const std::vector<double> seconds = prices_->seconds(from, to, value);
  std::vector<Cost> costs;
  for (std::size_t cell = 0; cell < seconds.size(); ++cell) {
    const bool has_way = !std::isinf(seconds[cell]);
    require(has_way || cost_.device().collectives != nullptr ||
                !can_connect(from[cell / to.size()], to[cell % to.size()]),
            "a chain of steps leads to every spec that is read");
    costs.push_back(has_way ? picoseconds(weight_ * seconds[cell], value.name)
                            : assignment::impossible);
  }
  return costs;
}

}  // namespace autopar::search
