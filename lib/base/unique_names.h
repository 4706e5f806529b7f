#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace autopar {

/// Names that are taken, each once.
class UniqueNames {
 public:
  /// "x#1" for "x" where that is taken, with the separator "#".
  explicit UniqueNames(std::string separator = "_") : separator_(std::move(separator)) {}

  void insert(const std::string& name) { taken_.insert(name); }
  /// The names of values, nodes and the like.
  template <typename Items>
  void insert_names(const Items& items) {
    for (const auto& item : items) insert(item.name);
  }
  void release(const std::string& name) { taken_.erase(name); }
  /// Takes the name, with a suffix where it is taken already.
  std::string take(const std::string& wanted) {
    std::string name = wanted;
    while (!taken_.insert(name).second)
      name = wanted + separator_ + std::to_string(++suffixes_[wanted]);
    return name;
  }

  /// The last suffix by name. Older ones may take their place: then suffixes are sought from there.
  using Suffixes = std::unordered_map<std::string, int>;
  const Suffixes& suffixes() const { return suffixes_; }
  void set_suffixes(Suffixes suffixes) { suffixes_ = std::move(suffixes); }

 private:
  std::string separator_;
  std::unordered_set<std::string> taken_;
  Suffixes suffixes_;
};

}  // namespace autopar
