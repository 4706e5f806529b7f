#pragma once

#include <array>
#include <concepts>

#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/elementwise/operators.h"

/// Element-wise programs that models have often, as types: how each is recognised, and what it is
/// worth. Results of inner functions are rounded to the elements' type, as between the links of a
/// chain.
namespace autopar::runtime::cuda {

// ---- Recognising -------------------------------------------------------------------------------

/// The program's inputs that stand for a pattern's.
using PatternInputs = std::array<int, 3>;
inline constexpr PatternInputs no_inputs = {-1, -1, -1};

/// A program whose results are looked up by their slots.
class MadeBy {
 public:
  MadeBy(const ElementwiseProgram& program) : program_(program) {}

  /// The input that is in a slot; -1 for none.
  int input(int slot) const {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      if (program_.inputs[i].slot == slot) return static_cast<int>(i);
    return -1;
  }

  /// The instruction whose results are in a slot, rounded unless it is the program's output; null
  /// for none.
  const ElementwiseProgram::Instruction* instruction(int slot) const {
    const ElementwiseProgram::Instruction* made = maker(slot);
    if (!is_half(program_.output_type) || slot == program_.output_slot) return made;
    if (made == nullptr || rounding_of(made->function) != program_.output_type) return nullptr;
    return maker(made->operands[0]);
  }

 private:
  const ElementwiseProgram::Instruction* maker(int slot) const {
    for (const auto& instruction : program_.instructions)
      if (instruction.result == slot) return &instruction;
    return nullptr;
  }

  const ElementwiseProgram& program_;
};

/// Whether a function of a program is `F`, on whichever types.
template <typename F, typename... Fs>
bool is_function(FunctionId place, Types<Fs...>) {
  static constexpr bool is_it[] = {std::same_as<F, typename Fs::F>...};
  return is_it[place];
}

// ---- The functions of half types ---------------------------------------------------------------

/// By the GPU's approximations, whose relative errors (below 2^-16) do not show where results are
/// rounded to half types.
__device__ __forceinline__ float quick_sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + __expf(-x));
}

template <typename F>
__device__ __forceinline__ float quick(const F& function, auto... x) {
  return function(x...);
}
__device__ __forceinline__ float quick(const functions::Sigmoid&, float x) {
  return quick_sigmoid(x);
}
__device__ __forceinline__ float quick(const functions::Swish& swish, float x) {
  return x * quick_sigmoid(static_cast<float>(swish.p.a) * x);
}
/// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
__device__ __forceinline__ float quick(const functions::GeluTanh&, float x) {
  return x * quick_sigmoid(1.59576912160573071176F * (x + 0.044715F * x * x * x));
}

template <typename T, typename F>
__device__ __forceinline__ float value_of(const F& function, auto... x) {
  if constexpr (std::same_as<T, float>)
    return function(x...);
  else
    return quick(function, x...);
}

/// To what an element of type T holds. For bfloat16 by the instruction that rounds two numbers,
/// which is several times faster than that for one.
template <typename T>
__device__ __forceinline__ float rounded(float x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::same_as<T, BFloat16>) return __low2float(__floats2bfloat162_rn(x, 0.0F));
#endif
  return widened(narrowed<T>(x));
}

// ---- Patterns ----------------------------------------------------------------------------------
// Each has `inputs`; match(), which finds itself in a program and keeps the functions' parameters;
// and operand<T>(), its value for one element of each input, rounded to elements of type T.

/// The pattern's input `place`.
template <int place>
struct In {
  static constexpr int inputs = place + 1;

  bool match(const MadeBy& made_by, int slot, PatternInputs& found) {
    const int input = made_by.input(slot);
    if (input < 0 || (found[place] >= 0 && found[place] != input)) return false;
    found[place] = input;
    return true;
  }
  template <typename T, int n>
  __device__ __forceinline__ float operand(const float (&x)[n]) const {
    return x[place];
  }
};

/// `F` of the results of other patterns, one or two.
template <typename F, typename... Operands>
struct Of;

template <typename F, typename A>
struct Of<F, A> {
  static constexpr int inputs = A::inputs;
  F function;
  A a;

  bool match(const MadeBy& made_by, int slot, PatternInputs& found) {
    const auto* made = made_by.instruction(slot);
    if (made == nullptr || !is_function<F>(made->function, ElementwiseFunctions{})) return false;
    function = make_function<F>(made->parameters);
    return a.match(made_by, made->operands[0], found);
  }
  template <typename T, int n>
  __device__ __forceinline__ float value(const float (&x)[n]) const {
    return value_of<T>(function, a.template operand<T>(x));
  }
  template <typename T, int n>
  __device__ __forceinline__ float operand(const float (&x)[n]) const {
    return rounded<T>(value<T>(x));
  }
};

/// The operands of Add and Mul may be swapped.
template <typename F, typename A, typename B>
struct Of<F, A, B> {
  static constexpr int inputs = A::inputs > B::inputs ? A::inputs : B::inputs;
  static constexpr bool is_commutative =
      std::same_as<F, functions::Add> || std::same_as<F, functions::Mul>;
  F function;
  A a;
  B b;

  bool match(const MadeBy& made_by, int slot, PatternInputs& found) {
    const auto* made = made_by.instruction(slot);
    if (made == nullptr || !is_function<F>(made->function, ElementwiseFunctions{})) return false;
    function = make_function<F>(made->parameters);
    const auto match_both = [&](int first, int second) {
      PatternInputs tried = found;
      if (!a.match(made_by, first, tried) || !b.match(made_by, second, tried)) return false;
      found = tried;
      return true;
    };
    const auto& operands = made->operands;
    return match_both(operands[0], operands[1]) ||
           (is_commutative && match_both(operands[1], operands[0]));
  }
  template <typename T, int n>
  __device__ __forceinline__ float value(const float (&x)[n]) const {
    return value_of<T>(function, a.template operand<T>(x), b.template operand<T>(x));
  }
  template <typename T, int n>
  __device__ __forceinline__ float operand(const float (&x)[n]) const {
    return rounded<T>(value<T>(x));
  }
};

/// All patterns; a program is the first that it matches.
using Patterns = decltype([] {
  using namespace functions;
  using X = In<0>;
  using Y = In<1>;
  using Z = In<2>;
  using Silu = Of<Mul, X, Of<Sigmoid, X>>;
  return Types<Of<Add, X, Y>,                //
               Of<Add, Of<Add, X, Y>, Z>,    //
               Of<Mul, X, Y>,                //
               Of<Relu, X>,                  //
               Of<Relu, Of<Add, X, Y>>,      //
               Of<Gelu, X>,                  //
               Of<Gelu, Of<Add, X, Y>>,      //
               Of<Mul, Of<Gelu, X>, Y>,      //
               Of<GeluTanh, X>,              //
               Of<GeluTanh, Of<Add, X, Y>>,  //
               Of<Mul, Of<GeluTanh, X>, Y>,  //
               Silu,                         //
               Of<Mul, Silu, Y>,             //
               Of<Swish, X>,                 //
               Of<Mul, Of<Swish, X>, Y>,     //
               Of<Mul, Of<Sigmoid, X>, Y>>{};
}());

}  // namespace autopar::runtime::cuda
