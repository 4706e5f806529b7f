#pragma once

#include <optional>
#include <vector>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {

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
  std::optional<Layout> after(const graph::Graph& graph, const graph::Node& node) const;
  void swap_last_two();
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

  /// The permutation by which a tensor of these extents, the dimensions' own in another order, is
  /// to be read to give the value: Transpose's `perm`. nullopt where a Reshape of the source to
  /// one such tensor does not exist. The identity, and the shape of the source itself, come first.
  struct Stored {
    Shape shape;
    std::vector<std::int64_t> permutation;
    bool is_identity() const;
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

/// An operand of a product and where it comes from.
struct TracedOperand {
  graph::ValueId source = graph::no_value;
  double factor = 1;  ///< the operand is so many times what it reads of the source
  Layout layout;
  bool is_moved = false;  ///< some Transpose or Expand lies between
};

/// All values that the operand can be read from, itself first, and then what Transpose, Reshape,
/// Expand, Mul by a number and, if `through_casts`, Casts to a wider type have made it from.
std::vector<TracedOperand> trace(const graph::Graph& graph, const Matcher& matcher,
                                 graph::ValueId operand, bool through_casts);

/// What follows a result until its layout is the one that is to be stored.
struct Tail {
  graph::ValueId value = graph::no_value;
  Layout::Stored stored;  ///< of the result's dimensions
};

/// The result itself, or what Transposes, Reshapes and a Cast to `type` make of it where nothing
/// else reads it.
Tail find_tail(const graph::Graph& graph, const Matcher& matcher, graph::ValueId result,
               DataType type);

/// Replaces `root`, which makes the tail's value, by the node, which gets a result of the tail's
/// type as it is stored; by what makes the value of that, where it is not the value itself. False
/// where the device would not run the node: then nothing is replaced.
bool put(graph::Graph& graph, const KernelTable& kernels, graph::Node node, const Tail& tail,
         graph::NodeId root, Insertions& inserted);

/// Sets the attribute unless it would say nothing.
void set_permutation(graph::Node& node, const char* name, const Layout::Stored& stored);

}  // namespace autopar::runtime::passes
