#include "sharding/spec_key.h"

#include "base/error.h"

namespace autopar::sharding {

namespace {

constexpr std::size_t axes_in_word = 5;
static_assert(DeviceMesh::max_axes <= 2 * axes_in_word);
/// How partial values are reduced stands in the second word, above its axes.
constexpr unsigned bit_of_reduce = 60;

/// The use of an axis: 0 for none, else a dimension's number from 1 on, or `partial`, and behind it
/// the place in that dimension. Axes of partial values ascend, and need none.
constexpr unsigned bits_of_use = 12;
constexpr unsigned bits_of_place = 4;
constexpr std::uint64_t partial = ((1U << (bits_of_use - bits_of_place)) - 1) << bits_of_place;
constexpr std::uint64_t mask_of_use = (1U << bits_of_use) - 1;
constexpr std::uint64_t mask_of_place = (1U << bits_of_place) - 1;

}  // namespace

SpecKey::SpecKey(const TensorShardSpec& spec) {
  require(spec.dims.size() < partial >> bits_of_place, "a tensor has fewer dimensions");
  words_[1] = static_cast<std::uint64_t>(spec.reduce) << bit_of_reduce;
  for (std::size_t d = 0; d < spec.dims.size(); ++d)
    for (std::size_t place = 0; place < spec.dims[d].size(); ++place)
      set_use(static_cast<std::size_t>(spec.dims[d][place]), (d + 1) << bits_of_place | place);
  for (const int axis : spec.partial) set_use(static_cast<std::size_t>(axis), partial);
}

std::uint64_t SpecKey::use_of(std::size_t axis) const {
  return words_[axis / axes_in_word] >> axis % axes_in_word * bits_of_use & mask_of_use;
}

void SpecKey::set_use(std::size_t axis, std::uint64_t use) {
  words_[axis / axes_in_word] |= use << axis % axes_in_word * bits_of_use;
}

Reduce SpecKey::reduce() const { return static_cast<Reduce>(words_[1] >> bit_of_reduce); }

TensorShardSpec SpecKey::spec(std::size_t num_dims) const {
  TensorShardSpec spec = TensorShardSpec::replicated(num_dims);
  spec.reduce = reduce();
  for (std::size_t axis = 0; axis < DeviceMesh::max_axes; ++axis) {
    const std::uint64_t use = use_of(axis);
    if (use == 0) continue;
    if (use == partial) {
      spec.partial.push_back(static_cast<int>(axis));
      continue;
    }
    std::vector<int>& axes = spec.dims[(use >> bits_of_place) - 1];
    const std::uint64_t place = use & mask_of_place;
    if (axes.size() <= place) axes.resize(place + 1);
    axes[place] = static_cast<int>(axis);
  }
  return spec;
}

SpecKey SpecKey::renamed(const AxisNames& names) const {
  if (names.empty()) return *this;
  SpecKey result;
  result.words_[1] = static_cast<std::uint64_t>(reduce()) << bit_of_reduce;
  for (std::size_t axis = 0; axis < names.size(); ++axis)
    result.set_use(static_cast<std::size_t>(names[axis]), use_of(axis));
  return result;
}

bool SpecKey::connects_to(const SpecKey& other) const {
  bool is_partial = false;
  for (std::size_t axis = 0; axis < DeviceMesh::max_axes; ++axis) {
    if (other.use_of(axis) != partial) continue;
    if (use_of(axis) != partial) return false;
    is_partial = true;
  }
  return !is_partial || reduce() == other.reduce();
}

std::size_t SpecKey::Hash::operator()(const SpecKey& key) const {
  const std::uint64_t hash =
      key.words_[0] * 0x9e3779b97f4a7c15 ^ (key.words_[1] + 1) * 0xc2b2ae3d27d4eb4f;
  return hash ^ hash >> 29;
}

}  // namespace autopar::sharding
