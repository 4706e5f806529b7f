#include <numeric>

#include "sharding/sharding_rule.h"

namespace autopar::sharding {
namespace {

/// Walks both shapes from their major ends. A shape is a chain of divisors of the tensor's size;
/// the factors are a refinement of both chains. `left` is what no factor covers yet of the
/// dimension at hand, `inner` the elements of that rest and all further dimensions: a factor starts
/// in both tensors at the same `inner`, and so stands for the same stride in both.
class ReshapeWalk {
 public:
  ReshapeWalk(const Shape& input, const Shape& output) : input_(input), output_(output) {}

  ShardingRule make() {
    while (input_.skip_covered() && output_.skip_covered()) {
      const std::int64_t common = std::gcd(input_.left, output_.left);
      if (common > 1) {
        const int factor = add_factor(common, FactorKind::spatial);
        input_.cover(factor, common);
        output_.cover(factor, common);
      } else {
        cover_mismatch();
      }
    }
    rule_.inputs = {std::move(input_.factors)};
    rule_.outputs = {std::move(output_.factors)};
    rule_.is_view = true;
    return std::move(rule_);
  }

 private:
  struct Side {
    explicit Side(const Shape& dims)
        : shape(dims), left(dims.empty() ? 1 : dims[0]), inner(graph::num_elements(dims)) {
      factors.resize(dims.size());
    }

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
    std::int64_t left;
    std::int64_t inner;
    std::vector<std::vector<int>> factors;
  };

  int add_factor(std::int64_t size, FactorKind kind) {
    rule_.factors.push_back({.size = size, .kind = kind});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  void cover_whole(Side& side) {
    side.cover(add_factor(side.left, FactorKind::whole), side.left);
    side.skip_covered();
  }

  /// No common divisor: what follows is whole on either side, up to where both are in step again.
  void cover_mismatch() {
    cover_whole(input_);
    cover_whole(output_);
    while (input_.inner != output_.inner) {
      cover_whole(input_.inner > output_.inner ? input_ : output_);
    }
  }

  Side input_;
  Side output_;
  ShardingRule rule_;
};

}  // namespace

ShardingRule make_reshape_rule(const Shape& input, const Shape& output) {
  require(graph::num_elements(input) == graph::num_elements(output),
          "a reshape keeps the number of elements");
  if (graph::num_elements(input) == 0) {
    ShardingRule nothing_to_split;
    nothing_to_split.inputs = {std::vector<std::vector<int>>(input.size())};
    nothing_to_split.outputs = {std::vector<std::vector<int>>(output.size())};
    nothing_to_split.is_view = true;
    return nothing_to_split;
  }
  return ReshapeWalk(input, output).make();
}

}  // namespace autopar::sharding
