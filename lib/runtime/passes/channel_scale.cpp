#include "runtime/passes/channel_scale.h"

#include <cmath>

#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime::passes {

using graph::Tensor;

namespace {

/// The numbers of a constant that has one for each channel of `images`, or one for all.
std::optional<Doubles> by_channel(const Matcher& matcher, ValueId id, const Shape& images) {
  if (images.size() < 3 || !matcher.is_constant(id)) return std::nullopt;
  const Shape& shape = matcher.shape(id);
  if (shape.size() > images.size()) return std::nullopt;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::size_t at = images.size() - shape.size() + d;
    if (shape[d] != 1 && (at != 1 || shape[d] != images[1])) return std::nullopt;
  }
  auto found = numbers(matcher, id);
  if (found && found->size() == 1) found->resize(static_cast<std::size_t>(images[1]), (*found)[0]);
  return found;
}

}  // namespace

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

std::optional<ChannelScale> scale_of(const Matcher& matcher, const Node& node,
                                     std::size_t operand) {
  if (node.outputs.size() != 1) return std::nullopt;
  if (is_onnx(node, "BatchNormalization"))
    return operand == 0 ? scale_of_normalization(matcher, node) : std::nullopt;
  const bool is_mul = is_onnx(node, "Mul");
  if ((!is_mul && !is_onnx(node, "Add")) || node.inputs.size() != 2) return std::nullopt;
  if (matcher.shape(node.outputs[0]) != matcher.shape(node.inputs[operand])) return std::nullopt;
  const auto constant =
      by_channel(matcher, node.inputs[1 - operand], matcher.shape(node.outputs[0]));
  if (!constant) return std::nullopt;
  const Doubles neutral(constant->size(), is_mul ? 0 : 1);
  return is_mul ? ChannelScale{node.inputs[operand], *constant, neutral}
                : ChannelScale{node.inputs[operand], neutral, *constant};
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
