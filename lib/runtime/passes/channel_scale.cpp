#include "runtime/passes/channel_scale.h"

#include <cmath>

#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime::passes {

using graph::Tensor;

std::optional<Doubles> numbers(const Matcher& matcher, ValueId id) {
  std::optional<Doubles> result;
  if (const auto constant = matcher.data(id))
    visit_type(constant->type(), AllFloats{}, [&]<typename T>(T) {
      result.emplace();
      for (const T x : constant->values<T>()) result->push_back(static_cast<double>(widened(x)));
    });
  return result;
}

std::optional<ChannelScale> scale_of_normalization(const Matcher& matcher, const Node& node) {
  if (node.int_attribute("training_mode", 0) != 0) return std::nullopt;
  const auto scale = numbers(matcher, node.inputs[1]);
  const auto bias = numbers(matcher, node.inputs[2]);
  const auto mean = numbers(matcher, node.inputs[3]);
  const auto variance = numbers(matcher, node.inputs[4]);
  if (!scale || !bias || !mean || !variance) return std::nullopt;
  const auto epsilon = static_cast<double>(node.float_attribute("epsilon", 1e-5F));
  ChannelScale result{node.inputs[0], {}, {}};
  for (std::size_t c = 0; c < scale->size(); ++c) {
    const double factor = (*scale)[c] / std::sqrt((*variance)[c] + epsilon);
    result.factors.push_back(factor);
    result.shifts.push_back((*bias)[c] - (*mean)[c] * factor);
  }
  return result;
}

Tensor tensor_of(DataType type, const Doubles& numbers) {
  Tensor tensor = Tensor::zeros(type, {std::ssize(numbers)});
  visit_type(type, Floats{}, [&]<typename T>(T) {
    auto* elements = reinterpret_cast<T*>(tensor.mutable_bytes().data());
    for (std::size_t c = 0; c < numbers.size(); ++c) elements[c] = static_cast<T>(numbers[c]);
  });
  return tensor;
}

}  // namespace autopar::runtime::passes
