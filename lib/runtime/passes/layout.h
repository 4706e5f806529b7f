#pragma once

#include <algorithm>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {

using Permutation = std::vector<std::int64_t>;
/// The node's attribute, which is absent where all dimensions are reversed.
Permutation permutation_of(const Node& transpose, std::size_t rank);

/// How the elements of a value lie in a contiguous one that it was made from by Transpose, Reshape,
/// Expand and the like, whose numbers it has.
class Layout {
 public:
  /// A dimension of n elements is split into factors, major first, whose extents' product is n: its
  /// index is written in them as in digits. The repetitions of an Expand have stride 0.
  struct Factor {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  ///< in elements of the source
    friend bool operator==(const Factor&, const Factor&) = default;
  };
  using Dimension = std::vector<Factor>;

  explicit Layout(const Shape& source);

  /// The layout of the node's output where its first input lies so. nullopt for an operator that
  /// moves elements otherwise, a Reshape that takes a dimension apart where it was put together of
  /// others, or one of no elements.
  std::optional<Layout> after(const Matcher& matcher, const Node& node) const;
  void swap_last_two();
  /// As a Reshape to these extents makes it; nullopt where one takes a dimension apart otherwise.
  std::optional<Layout> reshaped(const Shape& to) const;
  /// The extent of the major factor of a dimension; nullopt where it has but one.
  std::optional<std::int64_t> major_extent(std::size_t d) const;

  /// The permutation by which a tensor of these extents, the dimensions' own in another order, is
  /// to be read to give the value: Transpose's `perm`. nullopt where a Reshape of the source to
  /// one such tensor does not exist. The identity, and the shape of the source itself, come first.
  struct Stored {
    Shape shape;
    Permutation permutation;
    bool is_identity() const { return std::ranges::is_sorted(permutation); }
  };
  std::optional<Stored> stored(const Shape& source) const;

  /// The reverse, for a value that others are made from: the order into which a Transpose brings
  /// the dimensions of the source, so that a Reshape of that is the value, of shape `to`. nullopt
  /// where there is none.
  std::optional<Stored> storing(const Shape& source, const Shape& to) const;

  /// The layout with the repetitions that each follow all other factors in dimension `d` taken out
  /// of it, and how often it repeats: head h of a repeated key is head h / repeats of the key.
  std::pair<Layout, std::int64_t> without_repeats(std::size_t d) const;

 private:
  std::vector<Dimension> dimensions_;
};

/// A tensor of this shape, not permuted.
Layout::Stored stored_as_it_is(const Shape& shape);

/// An operand of a product and where it comes from.
struct TracedOperand {
  ValueId source = graph::no_value;
  double factor = 1;  ///< the operand is so many times what it reads of the source
  Layout layout;
  bool is_moved = false;  ///< some Transpose or Expand lies between
};

/// All values that the operand can be read from, itself first, and then what Transpose, Reshape,
/// Expand, Mul by a number and, if `through_casts`, Casts to a wider type have made it from.
std::vector<TracedOperand> trace(const Matcher& matcher, ValueId operand, bool through_casts);

/// What follows a result until its layout is the one that is to be stored.
struct Tail {
  ValueId value = graph::no_value;
  Layout::Stored stored;  ///< of the result's dimensions
};

/// The result itself, or what Transposes, Reshapes and a Cast to `type` make of it where nothing
/// else reads it. `shape` has the result's elements in the dimensions that are stored: its own, or
/// some of them taken apart.
Tail find_tail(const Matcher& matcher, ValueId result, const Shape& shape, DataType type);

/// Replaces the node that makes the tail's value by this one, which gets a result of the tail's
/// type as it is stored; by what makes the value of that, where it is not the value itself. Then
/// `inserted`, which the node reads, is the pass's. False where the device would not run the node:
/// then nothing is replaced.
bool put(Pass& pass, Node node, const Tail& tail, Insertions inserted);

/// Sets the attribute unless it would say nothing.
void set_permutation(Node& node, const char* name, const Layout::Stored& stored);

}  // namespace autopar::runtime::passes
