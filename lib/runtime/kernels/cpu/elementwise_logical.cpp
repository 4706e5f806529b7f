#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using namespace functions;

constexpr ElementwiseOperator lines[] = {
    {"And", 2, block<And, Booleans>},
    {"Or", 2, block<Or, Booleans>},
    {"Xor", 2, block<Xor, Booleans>},
    {"Not", 1, block<Not, Booleans>},
    {"Equal", 2, block<Equal, NumbersAndBooleans>},
    {"Less", 2, block<Less, Numbers>},
    {"LessOrEqual", 2, block<LessOrEqual, Numbers>},
    {"Greater", 2, block<Greater, Numbers>},
    {"GreaterOrEqual", 2, block<GreaterOrEqual, Numbers>},
    {"Where", 3, block<Where, NumbersAndBooleans>},
    {"IsNaN", 1, block<IsNaN, Floats>},
    {"IsInf", 1, block<IsInf, Floats>, nullptr, {{{"detect_negative", 1}, {"detect_positive", 1}}}},
    {"BitwiseAnd", 2, block<BitwiseAnd, Integers>},
    {"BitwiseOr", 2, block<BitwiseOr, Integers>},
    {"BitwiseXor", 2, block<BitwiseXor, Integers>},
    {"BitwiseNot", 1, block<BitwiseNot, Integers>},
    {"BitShift", 2, block<ShiftLeft, UnsignedIntegers>, nullptr, {}, {"direction", "LEFT", ""}},
    {"BitShift", 2, block<ShiftRight, UnsignedIntegers>, nullptr, {}, {"direction", "RIGHT", ""}},
};

}  // namespace

std::span<const ElementwiseOperator> logical_operators() { return lines; }

}  // namespace autopar::runtime::cpu
