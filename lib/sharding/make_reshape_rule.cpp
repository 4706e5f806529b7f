#include <numeric>

#include "sharding/sharding_rule.h"

namespace autopar::sharding {
namespace {

/// One of both shapes on a walk from their major ends.
struct Side {
  explicit Side(const Shape& dims)
      : shape(dims),
        left(dims.empty() ? 1 : dims[0]),
        inner(graph::num_elements(dims)),
        factors(dims.size()) {}

  /// Moves on to the next dimension with something left; false where there is none.
  bool skip_covered() {
    while (left == 1 && dim + 1 < shape.size()) left = shape[++dim];
    return left > 1;
  }
  void cover(int factor, std::int64_t size) {
    factors[dim].push_back(factor);
    left /= size;
    inner /= size;
  }

  const Shape& shape;
  std::size_t dim = 0;
  std::int64_t left;   ///< what no factor covers yet of the dimension at hand
  std::int64_t inner;  ///< the elements of that rest and all further dimensions
  TensorFactors factors;
};

}  // namespace

/// A shape is a chain of divisors of the tensor's size; the factors are a refinement of both
/// chains. A factor starts in both tensors at the same `inner`, and so stands for the same stride
/// in both.
ShardingRule make_reshape_rule(const Shape& input, const Shape& output) {
  require(graph::num_elements(input) == graph::num_elements(output),
          "a reshape keeps the number of elements");
  ShardingRule rule;
  rule.is_view = true;
  Side from(input);
  Side to(output);
  const auto add_factor = [&rule](std::int64_t size, FactorKind kind) {
    rule.factors.push_back({.size = size, .kind = kind});
    return static_cast<int>(rule.factors.size()) - 1;
  };
  const auto cover_whole = [&](Side& side) {
    side.cover(add_factor(side.left, FactorKind::whole), side.left);
    side.skip_covered();
  };
  while (graph::num_elements(input) > 0 && from.skip_covered() && to.skip_covered()) {
    const std::int64_t common = std::gcd(from.left, to.left);
    if (common > 1) {
      const int factor = add_factor(common, FactorKind::spatial);
      from.cover(factor, common);
      to.cover(factor, common);
      continue;
    }
    // No common divisor: what follows is whole on either side, up to where both are in step again.
    cover_whole(from);
    cover_whole(to);
    while (from.inner != to.inner) cover_whole(from.inner > to.inner ? from : to);
  }
  rule.inputs = {std::move(from.factors)};
  rule.outputs = {std::move(to.factors)};
  return rule;
}

}  // namespace autopar::sharding
