#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using namespace functions;

constexpr ElementwiseOperator lines[] = {
    {"Sqrt", 1, block<Sqrt, Floats>},   {"Reciprocal", 1, block<Reciprocal, Floats>},
    {"Exp", 1, block<Exp, Floats>},     {"Log", 1, block<Log, Floats>},
    {"Erf", 1, block<Erf, Floats>},     {"Floor", 1, block<Floor, Floats>},
    {"Ceil", 1, block<Ceil, Floats>},   {"Round", 1, block<Round, Floats>},
    {"Sin", 1, block<Sin, Floats>},     {"Cos", 1, block<Cos, Floats>},
    {"Tan", 1, block<Tan, Floats>},     {"Asin", 1, block<Asin, Floats>},
    {"Acos", 1, block<Acos, Floats>},   {"Atan", 1, block<Atan, Floats>},
    {"Sinh", 1, block<Sinh, Floats>},   {"Cosh", 1, block<Cosh, Floats>},
    {"Tanh", 1, block<Tanh, Floats>},   {"Asinh", 1, block<Asinh, Floats>},
    {"Acosh", 1, block<Acosh, Floats>}, {"Atanh", 1, block<Atanh, Floats>},
};

}  // namespace

std::span<const ElementwiseOperator> mathematical_operators() { return lines; }

}  // namespace autopar::runtime::cpu
