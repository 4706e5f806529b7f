#include "sharding/spec_key.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <unordered_set>

#include "sharding/connect.h"
#include "sharding/op_shard_spec.h"

using namespace autopar::sharding;

namespace {

/// Any spec of a tensor on a mesh of so many axes.
TensorShardSpec any_spec(std::mt19937& random, int num_axes, std::size_t num_dims) {
  std::vector<int> axes(static_cast<std::size_t>(num_axes));
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::shuffle(axes, random);
  TensorShardSpec spec = TensorShardSpec::replicated(num_dims);
  for (const int axis : axes) {
    const std::size_t use = random() % (num_dims + 2);
    if (use < num_dims) spec.dims[use].push_back(axis);
    if (use == num_dims) spec.partial.push_back(axis);
  }
  std::ranges::sort(spec.partial);
  if (spec.is_partial()) spec.reduce = static_cast<Reduce>(random() % 4);
  return spec;
}

/// With these names in place of its axes.
TensorShardSpec renamed(const TensorShardSpec& spec, const AxisNames& names) {
  TensorShardSpec result = spec;
  for (auto& axes : result.dims)
    for (int& axis : axes) axis = names[static_cast<std::size_t>(axis)];
  for (int& axis : result.partial) axis = names[static_cast<std::size_t>(axis)];
  std::ranges::sort(result.partial);
  return result;
}

}  // namespace

TEST_CASE("a key stands for one spec, and tells what the spec does") {
  std::mt19937 random(3);
  for (const int num_axes : {1, 4, 6, static_cast<int>(DeviceMesh::max_axes)}) {
    std::set<TensorShardSpec> specs;
    std::unordered_set<SpecKey, SpecKey::Hash> keys;
    for (int round = 0; round < 300; ++round) {
      const std::size_t num_dims = 1 + random() % 4;
      const TensorShardSpec spec = any_spec(random, num_axes, num_dims);
      const TensorShardSpec other = any_spec(random, num_axes, num_dims);
      CAPTURE(num_axes, to_string(spec), to_string(other));
      CHECK(SpecKey(spec).spec(num_dims) == spec);
      CHECK((SpecKey(spec) == SpecKey(other)) == (spec == other));
      CHECK(SpecKey(spec).connects_to(SpecKey(other)) == can_connect(spec, other));
      if (num_dims != 4) continue;
      specs.insert(spec);
      keys.insert(SpecKey(spec));
    }
    CHECK(specs.size() == keys.size());
  }
}

TEST_CASE("axes change places in keys as they do in specs") {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const int num_axes = 1 + static_cast<int>(random() % DeviceMesh::max_axes);
    AxisNames names(static_cast<std::size_t>(num_axes));
    std::iota(names.begin(), names.end(), 0);
    std::ranges::shuffle(names, random);
    const TensorShardSpec spec = any_spec(random, num_axes, 3);
    CAPTURE(to_string(spec));
    CHECK(SpecKey(spec).renamed(names) == SpecKey(renamed(spec, names)));
    CHECK(SpecKey(spec).renamed(names).renamed(inverse(names)) == SpecKey(spec));
    CHECK(SpecKey(spec).renamed({}) == SpecKey(spec));
  }
}

TEST_CASE("specs that differ in which of symmetric axes they use become one under their names") {
  std::mt19937 random(5);
  const SymmetricAxes symmetric{0, 1, 0, 1, 0};
  for (int round = 0; round < 300; ++round) {
    const TensorShardSpec spec = any_spec(random, 5, 3);
    AxisNames exchange{0, 1, 2, 3, 4};  // of axes that are symmetric
    if (random() % 2) std::swap(exchange[0], exchange[4]);
    if (random() % 2) std::swap(exchange[2], exchange[4]);
    if (random() % 2) std::swap(exchange[1], exchange[3]);
    const TensorShardSpec other = renamed(spec, exchange);
    const auto in_order = [&](const TensorShardSpec& each) {
      return renamed(each, names_by_first_use(each, symmetric));
    };
    CAPTURE(to_string(spec), to_string(other));
    CHECK(in_order(spec) == in_order(other));
    CHECK(canonical(in_order(spec), symmetric) == canonical(spec, symmetric));
    const AxisNames names = names_by_first_use(spec, symmetric);
    for (std::size_t axis = 0; axis < names.size(); ++axis)
      CHECK(symmetric[axis] == symmetric[static_cast<std::size_t>(names[axis])]);
  }
}
