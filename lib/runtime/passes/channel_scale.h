#pragma once

#include <optional>
#include <vector>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {

using Doubles = std::vector<double>;

/// What a node makes of each channel of its operand: x factor + shift.
struct ChannelScale {
  ValueId operand = graph::no_value;
  Doubles factors;
  Doubles shifts;
};

/// Doubles of a constant of floats; nullopt for other values, and where its data is absent.
std::optional<Doubles> numbers(const Matcher& matcher, ValueId id);

/// What BatchNormalization makes of each channel; nullopt where its parameters are not known.
std::optional<ChannelScale> scale_of_normalization(const Matcher& matcher, const Node& node);

/// The same of a BatchNormalization, or of a Mul or Add of a constant with one element a channel or
/// one for all, whose operand of that number has its result's shape; nullopt for other nodes.
std::optional<ChannelScale> scale_of(const Matcher& matcher, const Node& node, std::size_t operand);

/// A vector of floats.
graph::Tensor tensor_of(DataType type, const Doubles& numbers);

}  // namespace autopar::runtime::passes
