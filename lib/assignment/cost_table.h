#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace autopar::assignment {

/// Costs are integers so that equal optima compare equal; their unit is the caller's.
using Cost = std::int64_t;
/// A sum of many costs.
__extension__ typedef __int128 WideCost;
/// Marks a strategy or a pair that must not be chosen.
inline constexpr Cost impossible = 1'000'000'000'000'000'000;

/// The sum of two costs, at most `impossible`.
inline Cost plus(Cost a, Cost b) {
  if (a >= impossible || b >= impossible) return impossible;
  return a + b < impossible ? a + b : impossible;
}

/// A sum of many costs, clamped to [-impossible, impossible].
inline Cost saturated(WideCost cost) {
  return static_cast<Cost>(std::clamp<WideCost>(cost, -impossible, impossible));
}

/// The costs of an edge, shared by all that hold a copy: the edges of repeated layers, and problems
/// made from others. Copied on write.
class CostTable {
 public:
  CostTable() = default;
  CostTable(std::vector<Cost> costs)
      : costs_(std::make_shared<std::vector<Cost>>(std::move(costs))) {}
  CostTable(std::initializer_list<Cost> costs) : CostTable(std::vector<Cost>(costs)) {}

  std::size_t size() const { return costs_ ? costs_->size() : 0; }
  bool empty() const { return size() == 0; }
  Cost operator[](std::size_t place) const { return (*costs_)[place]; }
  const Cost* begin() const { return costs_ ? costs_->data() : nullptr; }
  const Cost* end() const { return begin() + size(); }

  /// The costs to write to, copied first where they are shared.
  std::vector<Cost>& edit() {
    if (!costs_) {
      costs_ = std::make_shared<std::vector<Cost>>();
    } else if (costs_.use_count() > 1) {
      costs_ = std::make_shared<std::vector<Cost>>(*costs_);
    }
    return *costs_;
  }
  bool operator==(const CostTable& other) const {
    return identity() == other.identity() || std::ranges::equal(*this, other);
  }
  /// Equal for those that share their costs, as long as one of them lives.
  const void* identity() const { return costs_.get(); }

 private:
  std::shared_ptr<std::vector<Cost>> costs_;
};

}  // namespace autopar::assignment
