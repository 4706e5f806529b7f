#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/common/half.h"
#include "runtime/kernels/common/host_device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/elementwise/math.h"

/// A step of RNN, GRU and LSTM, for all devices.
namespace autopar::runtime::AUTOPAR_DEVICE {

enum class RecurrentKind : std::uint8_t { rnn, lstm, gru, gru_gates, gru_candidate };

/// ONNX's activations.
enum class RecurrentActivation : std::uint8_t {
  relu,
  tanh,
  sigmoid,
  affine,
  leaky_relu,
  thresholded_relu,
  scaled_tanh,
  hard_sigmoid,
  elu,
  softsign,
  softplus
};

struct ActivationUse {
  RecurrentActivation function = RecurrentActivation::tanh;
  float alpha = 0;
  float beta = 0;

  template <typename Wide>
  AUTOPAR_ELEMENTWISE Wide operator()(Wide x) const {
    const Wide a = alpha;
    const Wide b = beta;
    switch (function) {
      case RecurrentActivation::relu:
        return x > 0 ? x : Wide{0};
      case RecurrentActivation::tanh:
        return math::tanh(x);
      case RecurrentActivation::sigmoid:
        return math::sigmoid(x);
      case RecurrentActivation::affine:
        return a * x + b;
      case RecurrentActivation::leaky_relu:
        return x < 0 ? a * x : x;
      case RecurrentActivation::thresholded_relu:
        return x >= a ? x : Wide{0};
      case RecurrentActivation::scaled_tanh:
        return a * math::tanh(b * x);
      case RecurrentActivation::hard_sigmoid: {
        const Wide y = a * x + b;
        return y < 0 ? Wide{0} : (y > 1 ? Wide{1} : y);
      }
      case RecurrentActivation::elu:
        return x < 0 ? a * (math::exp(x) - Wide{1}) : x;
      case RecurrentActivation::softsign:
        return x / (Wide{1} + std::fabs(x));
      case RecurrentActivation::softplus:
        return math::softplus(x);
    }
    return x;
  }
};

/// Activations of the cell's direction, as many as its operator has; defaults where the node names
/// none.
inline std::array<ActivationUse, 3> recurrent_activations(const KernelRequest& request,
                                                          RecurrentKind kind) {
  struct Known {
    std::string_view name;
    float alpha = 0;  // defaults, of those that have one
    float beta = 0;
    int numbers = 0;  // that it takes from the node: alpha, then beta
  };
  static constexpr std::array<Known, 11> known = {{{"relu"},
                                                   {"tanh"},
                                                   {"sigmoid"},
                                                   {"affine", 1, 0, 2},
                                                   {"leakyrelu", 0.01F, 0, 1},
                                                   {"thresholdedrelu", 1, 0, 1},
                                                   {"scaledtanh", 1, 1, 2},
                                                   {"hardsigmoid", 0.2F, 0.5F, 2},
                                                   {"elu", 1, 0, 1},
                                                   {"softsign"},
                                                   {"softplus"}}};
  const graph::Node& node = request.node;
  const auto list = [&]<typename T>(const char* name, T) {
    const auto found = node.attributes.find(name);
    const auto* values =
        found == node.attributes.end() ? nullptr : std::get_if<std::vector<T>>(&found->second);
    return values == nullptr ? std::vector<T>{} : *values;
  };
  std::vector<std::string> defaults = {"sigmoid", "tanh"};
  if (kind == RecurrentKind::rnn) defaults = {"tanh"};
  if (kind == RecurrentKind::lstm) defaults.emplace_back("tanh");
  const std::size_t count = defaults.size();
  std::vector<std::string> names = list("activations", std::string());
  const auto direction = static_cast<std::size_t>(node.int_attribute("direction", 0));
  if (names.empty())
    for (std::size_t d = 0; d <= direction; ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() < (direction + 1) * count)
    fail("node '{}': there are {} activations, too few", node.name, names.size());
  const auto alphas = list("activation_alpha", 0.0F);
  const auto betas = list("activation_beta", 0.0F);
  std::array<ActivationUse, 3> uses;
  std::size_t next_alpha = 0;
  std::size_t next_beta = 0;
  for (std::size_t i = 0; i < (direction + 1) * count; ++i) {
    std::string name = names[i];
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto found = std::ranges::find(known, name, &Known::name);
    if (found == known.end()) fail("node '{}': activation '{}' is not known", node.name, names[i]);
    ActivationUse use{static_cast<RecurrentActivation>(found - known.begin()), found->alpha,
                      found->beta};
    if (found->numbers > 0 && next_alpha < alphas.size()) use.alpha = alphas[next_alpha++];
    if (found->numbers > 1 && next_beta < betas.size()) use.beta = betas[next_beta++];
    if (i >= direction * count) uses[i - direction * count] = use;
  }
  return uses;
}

inline RecurrentKind recurrent_kind(const KernelRequest& request) {
  static constexpr std::array<std::string_view, 5> kinds = {"rnn", "lstm", "gru", "gru_gates",
                                                            "gru_candidate"};
  const auto found = std::ranges::find(kinds, request.node.string_attribute("kind", ""));
  require(found != kinds.end(), "a recurrent cell has a kind");
  return static_cast<RecurrentKind>(found - kinds.begin());
}

/// What the node says.
struct RecurrentStep {
  RecurrentKind kind;
  std::array<ActivationUse, 3> activations;
  std::int64_t hidden_size;
  std::int64_t step;
  std::int64_t x_stride;  ///< elements from one element of the batch to the next
  std::int64_t y_stride;
  std::int64_t state_stride;
  float clip;
  bool couples_gates;
};

inline RecurrentStep recurrent_step(const KernelRequest& request) {
  const graph::Node& node = request.node;
  const RecurrentKind kind = recurrent_kind(request);
  return {.kind = kind,
          .activations = recurrent_activations(request, kind),
          .hidden_size = node.int_attribute("hidden_size", 1),
          .step = node.int_attribute("step", 0),
          .x_stride = node.int_attribute("x_stride", 0),
          .y_stride = node.int_attribute("y_stride", 0),
          .state_stride = request.inputs.at(1).shape[1],
          .clip = node.float_attribute("clip", 0),
          .couples_gates = node.int_attribute("input_forget", 0) != 0};
}

/// One element of the state. Gates are [batch, gates * hidden], biases [gates, hidden].
template <typename T>
struct RecurrentCellElement {
  using Wide = decltype(widened(T{}));

  RecurrentStep of;
  const T* x_gates;
  const T* state_gates;
  const T* w_bias;
  const T* r_bias;
  const T* hidden_in;           ///< [batch, hidden]
  const T* cell_in;             ///< [batch, hidden]
  const T* peepholes;           ///< [3, hidden]
  const std::int32_t* lengths;  ///< [batch]
  T* new_hidden;                ///< [batch, hidden]
  T* new_cell;                  ///< [batch, hidden]
  T* y;                         ///< [batch, hidden], y_stride apart

  std::int64_t item_work() const { return 32; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t b = item / of.hidden_size;
    const std::int64_t j = item % of.hidden_size;
    const bool is_over = lengths != nullptr && of.step >= lengths[b];
    Wide hidden{};
    if (!is_over) {
      switch (of.kind) {
        case RecurrentKind::rnn:
          hidden = activated(0, from_x(0, b, j) + from_state(0, b, j));
          break;
        case RecurrentKind::lstm:
          hidden = lstm(b, j);
          break;
        case RecurrentKind::gru: {
          const Wide update = activated(0, from_x(0, b, j) + from_state(0, b, j));
          const Wide reset = activated(0, from_x(1, b, j) + from_state(1, b, j));
          const Wide candidate = activated(1, from_x(2, b, j) + reset * from_state(2, b, j));
          hidden = mixed(update, candidate, item);
          break;
        }
        case RecurrentKind::gru_gates: {
          const Wide update = activated(0, from_x(0, b, j) + from_state(0, b, j));
          const Wide reset = activated(0, from_x(1, b, j) + from_state(1, b, j));
          new_cell[item] = narrowed<T>(update);
          hidden = reset * widened(hidden_in[item]);
          break;
        }
        case RecurrentKind::gru_candidate:
          hidden =
              mixed(widened(cell_in[item]),
                    activated(1, from_x(2, b, j) + from_state(0, b, j) + bias(r_bias, 2, j)), item);
          break;
      }
      new_hidden[item] = narrowed<T>(hidden);
    } else if (of.kind == RecurrentKind::gru_gates) {
      new_hidden[item] = narrowed<T>(Wide{});  // the product reads it
    }
    if (y != nullptr) y[b * of.y_stride + j] = narrowed<T>(hidden);
  }

  AUTOPAR_ELEMENTWISE Wide bias(const T* biases, int gate, std::int64_t j) const {
    return biases == nullptr ? Wide{} : widened(biases[gate * of.hidden_size + j]);
  }
  /// A gate's part that the input makes.
  AUTOPAR_ELEMENTWISE Wide from_x(int gate, std::int64_t b, std::int64_t j) const {
    return widened(x_gates[b * of.x_stride + gate * of.hidden_size + j]) + bias(w_bias, gate, j);
  }
  /// The part that the hidden state makes.
  AUTOPAR_ELEMENTWISE Wide from_state(int gate, std::int64_t b, std::int64_t j) const {
    const Wide product = widened(state_gates[b * of.state_stride + gate * of.hidden_size + j]);
    return of.kind == RecurrentKind::gru_candidate ? product : product + bias(r_bias, gate, j);
  }
  AUTOPAR_ELEMENTWISE Wide activated(int activation, Wide x) const {
    const Wide limit = of.clip;
    if (of.clip > 0) x = x > limit ? limit : (x < -limit ? -limit : x);
    return of.activations[activation](x);
  }
  AUTOPAR_ELEMENTWISE Wide mixed(Wide update, Wide candidate, std::int64_t item) const {
    return (Wide{1} - update) * candidate + update * widened(hidden_in[item]);
  }
  /// Gates are in the order input, output, forget, cell; peepholes input, output, forget.
  AUTOPAR_ELEMENTWISE Wide lstm(std::int64_t b, std::int64_t j) const {
    const std::int64_t item = b * of.hidden_size + j;
    const Wide old = widened(cell_in[item]);
    const Wide input =
        activated(0, from_x(0, b, j) + from_state(0, b, j) + bias(peepholes, 0, j) * old);
    const Wide forget =
        of.couples_gates
            ? Wide{1} - input
            : activated(0, from_x(2, b, j) + from_state(2, b, j) + bias(peepholes, 2, j) * old);
    const Wide candidate = activated(1, from_x(3, b, j) + from_state(3, b, j));
    const Wide cell = forget * old + input * candidate;
    const Wide output =
        activated(0, from_x(1, b, j) + from_state(1, b, j) + bias(peepholes, 1, j) * cell);
    new_cell[item] = narrowed<T>(cell);
    // Not an input of an activation by the equations of the gates: no clip.
    return output * of.activations[2](cell);
  }
};

}  // namespace autopar::runtime::AUTOPAR_DEVICE
