#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/kernels/common/floats.h"
#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

/// What a node makes of each channel of its operand: x factor + shift.
struct ChannelScale {
  ValueId operand = graph::no_value;
  std::vector<double> factors;
  std::vector<double> shifts;
};

class ChannelScaleFolding {
 public:
  ChannelScaleFolding(Graph& graph, const KernelTable& kernels)
      : graph_(graph),
        kernels_(kernels),
        uses_(graph),
        first_new_(static_cast<ValueId>(graph.values.size())) {}

  std::int64_t run() {
    for (Node& node : graph_.nodes) fold(node);
    return bytes_;
  }

 private:
  /// The node becomes the convolution, which is dead then.
  void fold(Node& node) {
    for (const std::size_t operand : {0, 1}) {
      const auto scale = scale_of(node, operand);
      if (!scale) continue;
      const NodeId producer = uses_.producer(scale->operand);
      if (producer == graph::no_node || !uses_.is_read_once(scale->operand)) continue;
      const Node& conv = graph_.node(producer);
      if (!can_take(conv, scale->factors.size())) continue;
      Node scaled = conv;
      scaled.name = node.name;
      scaled.outputs = node.outputs;
      if (!can_run(kernels_, graph_, scaled)) continue;
      scaled.inputs = {conv.inputs[0], scaled_weights(conv.inputs[1], *scale),
                       shifted_bias(conv, *scale)};
      node = std::move(scaled);
      return;
    }
  }

  /// Numbers of a constant of floats.
  std::optional<std::vector<double>> numbers(ValueId id) const {
    if (id == graph::no_value || !graph_.is_constant(id)) return std::nullopt;
    const Tensor& constant = *graph_.value(id).constant;
    if (!constant.has_data() || !graph::is_floating_point(constant.type())) return std::nullopt;
    const Tensor copy = constant.contiguous_copy();
    AnyFloats floats;
    floats.type = copy.type();
    floats.data = const_cast<std::byte*>(copy.bytes().data());
    std::vector<double> result(static_cast<std::size_t>(copy.elements()));
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = floats.at(static_cast<std::int64_t>(i));
    return result;
  }

  std::optional<ChannelScale> scale_of(const Node& node, std::size_t operand) const {
    if (!node.domain.empty() || node.outputs.size() != 1) return std::nullopt;
    if (node.op_type == "BatchNormalization")
      return operand == 0 ? scale_of_normalization(node) : std::nullopt;
    if ((node.op_type != "Mul" && node.op_type != "Add") || node.inputs.size() != 2)
      return std::nullopt;
    const auto constant = by_channel(node.inputs[1 - operand], graph_.value(node.outputs[0]).shape);
    if (!constant) return std::nullopt;
    const std::size_t n = constant->size();
    if (node.op_type == "Mul")
      return ChannelScale{node.inputs[operand], *constant, std::vector<double>(n, 0)};
    return ChannelScale{node.inputs[operand], std::vector<double>(n, 1), *constant};
  }

  std::optional<ChannelScale> scale_of_normalization(const Node& node) const {
    if (node.int_attribute("training_mode", 0) != 0) return std::nullopt;
    const auto scale = numbers(node.inputs[1]);
    const auto bias = numbers(node.inputs[2]);
    const auto mean = numbers(node.inputs[3]);
    const auto variance = numbers(node.inputs[4]);
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

  /// The numbers of a constant that has one for each channel of `images`, or one for all.
  std::optional<std::vector<double>> by_channel(ValueId id, const Shape& images) const {
    if (images.size() < 3 || !graph_.is_constant(id)) return std::nullopt;
    const Shape& shape = graph_.value(id).shape;
    if (shape.size() > images.size()) return std::nullopt;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::size_t at = images.size() - shape.size() + d;
      if (shape[d] != 1 && (at != 1 || shape[d] != images[1])) return std::nullopt;
    }
    auto found = numbers(id);
    if (found && found->size() == 1)
      found->resize(static_cast<std::size_t>(images[1]), (*found)[0]);
    return found;
  }

  /// Whether it is a Conv of so many channels, its weights constants in which a factor is not lost.
  bool can_take(const Node& conv, std::size_t channels) const {
    if (!conv.domain.empty() || conv.op_type != "Conv") return false;
    const graph::Value& weights = graph_.value(conv.inputs[1]);
    const bool is_exact = weights.type == DataType::float32 || weights.type == DataType::float64;
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != graph::no_value;
    return is_exact && weights.constant &&
           weights.shape[0] == static_cast<std::int64_t>(channels) &&
           (!has_bias || numbers(conv.inputs[2]).has_value());
  }

  /// A constant that the convolution no longer reads.
  void drop(ValueId id) {
    graph_.value(id).constant->release_pages();
    if (id >= first_new_ || uses_.is_read_once(id))
      bytes_ -= graph_.value(id).constant->size_bytes();
  }

  ValueId add(ValueId like, const char* suffix, Tensor tensor) {
    bytes_ += tensor.size_bytes();
    return graph_.add_constant(graph_.value(like).name + suffix, std::move(tensor));
  }

  ValueId scaled_weights(ValueId weights, const ChannelScale& scale) {
    const Tensor& stored = *graph_.value(weights).constant;
    Tensor scaled = stored.has_data() ? stored.contiguous_copy() : stored;
    if (scaled.has_data())
      visit_type(scaled.type(), Floats{}, [&]<typename T>(T) {
        auto* elements = reinterpret_cast<T*>(scaled.mutable_bytes().data());
        const auto channels = static_cast<std::int64_t>(scale.factors.size());
        const std::int64_t each = channels == 0 ? 0 : scaled.elements() / channels;
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = c * each; i < (c + 1) * each; ++i)
            elements[i] = static_cast<T>(static_cast<double>(elements[i]) *
                                         scale.factors[static_cast<std::size_t>(c)]);
      });
    drop(weights);
    return add(weights, "_scaled", std::move(scaled));
  }

  ValueId shifted_bias(const Node& conv, const ChannelScale& scale) {
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != graph::no_value;
    std::vector<double> bias(scale.shifts.size(), 0);
    if (has_bias) {
      bias = *numbers(conv.inputs[2]);
      drop(conv.inputs[2]);
    }
    for (std::size_t c = 0; c < bias.size(); ++c)
      bias[c] = bias[c] * scale.factors[c] + scale.shifts[c];
    const DataType type = graph_.value(conv.inputs[1]).type;
    Tensor tensor = Tensor::zeros(type, {static_cast<std::int64_t>(bias.size())});
    visit_type(type, Floats{}, [&]<typename T>(T) {
      auto* elements = reinterpret_cast<T*>(tensor.mutable_bytes().data());
      for (std::size_t c = 0; c < bias.size(); ++c) elements[c] = static_cast<T>(bias[c]);
    });
    return add(conv.inputs[1], "_bias", std::move(tensor));
  }

  Graph& graph_;
  const KernelTable& kernels_;
  ValueUses uses_;
  ValueId first_new_;  ///< what passes add
  std::int64_t bytes_ = 0;
};

}  // namespace

std::int64_t fold_channel_scales(Graph& graph, const KernelTable& kernels) {
  return ChannelScaleFolding(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
