#pragma once

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {

/// One mask of the scores: numbers that are added, or a boolean where scores give way to `fill`.
struct Mask {
  ValueId value = graph::no_value;
  std::optional<double> fill;           ///< of a boolean mask alone
  bool keeps = true;                    ///< of a boolean mask: whether scores stay where it is true
  DataType type = DataType::undefined;  ///< of the scores under it
  Shape shape;                          ///< of the scores under it
  auto operator<=>(const Mask&) const = default;
};

/// A softmax over the last dimension, of scaled scores under masks.
struct SoftmaxForm {
  ValueId scores = graph::no_value;
  double scale = 1;
  std::vector<Mask> masks;   ///< the last to be applied first
  bool nan_to_zero = false;  ///< a row that came out as NaN becomes zeros
};

/// What lies between a softmax, its masks and its scores, and is looked through.
struct LookThrough {
  bool casts = false;     ///< between floating types
  bool reshapes = false;  ///< that keep the last two dimensions
};

/// The form in which `value` is computed. What is under `most_masks` masks counts as scores.
std::optional<SoftmaxForm> match_softmax(const Matcher& matcher, ValueId value,
                                         std::size_t most_masks, LookThrough through);

}  // namespace autopar::runtime::passes
