#include "runtime/kernels/activation_functions.h"
#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using namespace functions;

constexpr double selu_alpha = 1.67326319217681884765625;
constexpr double selu_gamma = 1.05070102214813232421875;

constexpr ElementwiseOperator lines[] = {
    {"Relu", 1, block<Relu, SignedNumbers>},
    {"LeakyRelu", 1, block<LeakyRelu, Floats>, nullptr, {{{"alpha", 0.01}}}},
    {"PRelu", 2, block<PRelu, Numbers>},
    {"ThresholdedRelu", 1, block<ThresholdedRelu, Floats>, nullptr, {{{"alpha", 1}}}},
    {"Shrink", 1, block<Shrink, Floats>, nullptr, {{{"bias", 0}, {"lambd", 0.5}}}},
    {"Elu", 1, block<Elu, Floats>, nullptr, {{{"alpha", 1}}}},
    {"Celu", 1, block<Celu, Floats>, nullptr, {{{"alpha", 1}}}},
    {"Selu", 1, block<Selu, Floats>, nullptr, {{{"alpha", selu_alpha}, {"gamma", selu_gamma}}}},
    {"Gelu", 1, block<Gelu, Floats>, nullptr, {}, {"approximate", "none", "none"}},
    {"Gelu", 1, block<GeluTanh, Floats>, nullptr, {}, {"approximate", "tanh", "none"}},
    {"Sigmoid", 1, block<Sigmoid, Floats>},
    {"Swish", 1, block<Swish, Floats>, nullptr, {{{"alpha", 1}}}},
    {"HardSigmoid", 1, block<HardSigmoid, Floats>, nullptr, {{{"alpha", 0.2}, {"beta", 0.5}}}},
    {"HardSwish", 1, block<HardSwish, Floats>},
    {"Softplus", 1, block<Softplus, Floats>},
    {"Softsign", 1, block<Softsign, Floats>},
    {"Mish", 1, block<Mish, Floats>},
};

}  // namespace

std::span<const ElementwiseOperator> activation_operators() { return lines; }

}  // namespace autopar::runtime::cpu
