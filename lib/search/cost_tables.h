#pragma once

#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/connection_prices.h"
#include "cost/cost_model.h"
#include "search/operator_strategies.h"
#include "search/tensor_versions.h"

namespace autopar::search {

/// The costs of edges, each table made once: operators and tensors that are alike share them, so
/// that a model of many layers is priced once a layer. Lists and versions that it returns live as
/// long as it does. Keeps a reference to the cost model.
class CostTables {
 public:
  /// Costs are times the weight.
  explicit CostTables(const cost::CostModel& cost, double weight = 1, SharedPrices prices = nullptr)
      : cost_(cost), weight_(weight), prices_(prices_or_own(std::move(prices), cost)) {}

  const SpecList* shared(SpecList specs) { return &*spec_lists_.insert(std::move(specs)).first; }
  /// By strategy, the specs of a place among `tensors`, the inputs or the outputs.
  const SpecList* specs(const OperatorStrategies& strategies, std::size_t place,
                        SpecList sharding::OpShardSpec::*tensors);
  /// As tensor_versions.h makes them.
  const TensorVersions& counted_versions(const std::vector<const SpecList*>& read,
                                         const std::vector<int>& kinds);
  const TensorVersions& versions(const std::vector<const SpecList*>& read, const SpecList* made);
  const TensorVersions& shared_versions(const std::vector<const SpecList*>& read,
                                        const SpecList* made);
  const TensorVersions& relaxed_versions(const std::vector<const SpecList*>& read,
                                         const SpecList* made);

  /// Producer and only reader.
  assignment::CostTable connecting(const graph::Value& value, const SpecList* made,
                                   const SpecList* read);
  /// Producer and way: the price of making what the set has more.
  assignment::CostTable making(const graph::Value& value, const SpecList* made,
                               const TensorVersions& versions);
  /// Producer and one of several readers: the price of what it alone may read.
  assignment::CostTable making_alone(const graph::Value& value, const SpecList* made,
                                     const SpecList* read, const TensorVersions& versions);
  /// Way and reader: impossible where the set lacks what is read and others may read, too; the
  /// price of a copy of its own.
  assignment::CostTable reading(const graph::Value& value, const TensorVersions& versions,
                                const SpecList* read);
  assignment::Cost connect_cost(const graph::Value& value, const sharding::TensorShardSpec& from,
                                const sharding::TensorShardSpec& to);
  /// From each to each, those from one together.
  std::vector<assignment::Cost> connect_costs(const graph::Value& value,
                                              std::span<const sharding::TensorShardSpec> from,
                                              std::span<const sharding::TensorShardSpec> to);

 private:
  /// Tables are shared by tensors of one kind.
  using Kind = cost::MovedTensor;

  const cost::CostModel& cost_;
  const double weight_;
  const SharedPrices prices_;
  std::set<SpecList> spec_lists_;
  std::map<std::tuple<const OperatorStrategies*, std::size_t, bool>, const SpecList*> lists_;
  using Readers = std::vector<const SpecList*>;
  std::map<std::pair<Readers, std::vector<int>>, TensorVersions> counted_versions_;
  std::map<std::pair<Readers, const SpecList*>, TensorVersions> versions_;
  std::map<std::pair<Readers, const SpecList*>, TensorVersions> shared_versions_;
  std::map<std::pair<Readers, const SpecList*>, TensorVersions> relaxed_versions_;
  std::map<std::tuple<const SpecList*, const SpecList*, Kind>, assignment::CostTable> connecting_;
  std::map<std::tuple<const SpecList*, const TensorVersions*, Kind>, assignment::CostTable> making_;
  std::map<std::tuple<const SpecList*, const SpecList*, const TensorVersions*, Kind>,
           assignment::CostTable>
      making_alone_;
  std::map<std::tuple<const TensorVersions*, const SpecList*, Kind>, assignment::CostTable>
      reading_;
};

}  // namespace autopar::search
