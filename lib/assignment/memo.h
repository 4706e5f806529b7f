#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "assignment/cost_table.h"

namespace autopar::assignment {

/// Mixes one more number into a hash.
inline std::size_t combined(std::size_t hash, std::uint64_t number) {
  const std::uint64_t mixed = (hash ^ number) * 0xff51afd7ed558ccd;
  return static_cast<std::size_t>(mixed ^ (mixed >> 32));
}

/// Hashes a sequence.
inline std::size_t hash_of(const auto& numbers) {
  std::size_t hash = 0x9e3779b97f4a7c15;
  for (const auto number : numbers) hash = combined(hash, static_cast<std::uint64_t>(number));
  return hash;
}

/// Keeps one of all tables with equal contents.
class TablePool {
 public:
  CostTable unique(const CostTable& table) {
    if (identities_.contains(table.identity())) return table;
    const auto [kept, is_new] = tables_.insert(table);
    if (is_new) {
      identities_.insert(table.identity());
      cells_ += table.size();
    }
    return *kept;
  }
  /// The cells of all tables together.
  std::size_t cells() const { return cells_; }

 private:
  struct Hash {
    std::size_t operator()(const CostTable& table) const { return hash_of(table); }
  };
  std::unordered_set<CostTable, Hash> tables_;
  std::unordered_set<const void*> identities_;
  std::size_t cells_ = 0;
};

/// The arguments of a function whose answers are remembered. Tables in it must live as long as it,
/// so that no other table gets their identity.
class MemoKey {
 public:
  MemoKey& add(const CostTable& table) {
    parts_.push_back(reinterpret_cast<std::uintptr_t>(table.identity()));
    return *this;
  }
  MemoKey& add(std::size_t number) {
    parts_.push_back(number);
    return *this;
  }
  template <typename Number>
  MemoKey& add(const std::vector<Number>& numbers) {
    add(numbers.size());
    for (const Number number : numbers) parts_.push_back(static_cast<std::uintptr_t>(number));
    return *this;
  }
  bool operator==(const MemoKey&) const = default;
  struct Hash {
    std::size_t operator()(const MemoKey& key) const { return hash_of(key.parts_); }
  };

 private:
  std::vector<std::uintptr_t> parts_;
};

/// Remembers the answers of a function by its arguments.
template <typename Answer>
class Memo {
 public:
  std::shared_ptr<const Answer> get(const MemoKey& key, const auto& make) {
    auto& known = answers_[key];
    if (!known) known = std::make_shared<const Answer>(make());
    return known;
  }

 private:
  std::unordered_map<MemoKey, std::shared_ptr<const Answer>, MemoKey::Hash> answers_;
};

}  // namespace autopar::assignment
