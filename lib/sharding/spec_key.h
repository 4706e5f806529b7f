#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sharding/symmetric_axes.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

/// A spec in a few bits an axis: where it is used, and in which place there. It takes less memory
/// than the spec, and is compared, and its axes renamed, more quickly.
class SpecKey {
 public:
  explicit SpecKey(const TensorShardSpec& spec);
  /// The spec, of a tensor with so many dimensions.
  TensorShardSpec spec(std::size_t num_dims) const;

  /// The key of the spec whose axes have these names.
  SpecKey renamed(const AxisNames& names) const;
  /// Whether can_connect says so of the specs.
  bool connects_to(const SpecKey& other) const;

  bool operator==(const SpecKey&) const = default;
  struct Hash {
    std::size_t operator()(const SpecKey& key) const;
  };

 private:
  SpecKey() = default;
  std::uint64_t use_of(std::size_t axis) const;
  void set_use(std::size_t axis, std::uint64_t use);
  Reduce reduce() const;

  std::array<std::uint64_t, 2> words_{};
};

}  // namespace autopar::sharding
