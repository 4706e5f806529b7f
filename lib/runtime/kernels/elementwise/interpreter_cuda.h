#pragma once

#include <array>

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/elementwise/code_cuda.h"
#include "runtime/kernels/elementwise/operators.h"
#include "runtime/kernels/elementwise/registers_cuda.h"

/// The kernel that runs element-wise code. A thread computes `width_of<Word>` elements, 32 bytes of
/// registers an operand, so that its loads are of 16 bytes for all types but the smallest and
/// several are under way. All branches on the code are uniform; registers have names known to the
/// compiler, so that none of them lies in memory.
namespace autopar::runtime::cuda {

inline constexpr int interpreter_threads = 128;
/// Bytes of shared memory that a slot takes in a block.
inline constexpr int slot_bytes = interpreter_threads * 32;

/// The elements of one operand. As loaded they lie *packed*, with the size that they have in
/// memory, from the first word on; unpacked, they have a word each.
template <typename Word>
struct Bank {
  Word words[width_of<Word>] = {};
};

// Pieces of packed elements: E is an unsigned integer of the elements' size.

template <typename E, typename Word>
__device__ __forceinline__ E piece(const Bank<Word>& bank, int i) {
  constexpr int per_word = sizeof(Word) / sizeof(E);
  return static_cast<E>(bank.words[i / per_word] >> (8 * sizeof(E) * (i % per_word)));
}

/// Sets piece `i` of a bank whose pieces from there on are 0.
template <typename E, typename Word>
__device__ __forceinline__ void set_piece(Bank<Word>& bank, int i, E value) {
  constexpr int per_word = sizeof(Word) / sizeof(E);
  bank.words[i / per_word] |= static_cast<Word>(value) << (8 * sizeof(E) * (i % per_word));
}

/// Moves a bank's pieces down by one, and `last` in behind them.
template <typename E, typename Word>
__device__ __forceinline__ void push_piece(Bank<Word>& bank, E last) {
  constexpr int bits = 8 * sizeof(E);
  constexpr int word_bits = 8 * sizeof(Word);
  constexpr int words = (width_of<Word> * bits + word_bits - 1) / word_bits;
  constexpr int top = (width_of<Word> * bits - 1) % word_bits + 1 - bits;
#pragma unroll
  for (int k = 0; k < words; ++k) {
    if constexpr (bits == word_bits) {
      bank.words[k] = k + 1 < words ? bank.words[k + 1] : last;
    } else {
      const Word next =
          k + 1 < words ? bank.words[k + 1] << (word_bits - bits) : static_cast<Word>(last) << top;
      bank.words[k] = bank.words[k] >> bits | next;
    }
  }
}

/// The k-th 16 bytes of a bank.
template <typename Word>
__device__ __forceinline__ uint4 chunk(const Bank<Word>& bank, int k) {
  const Word* words = bank.words;
  if constexpr (sizeof(Word) == 4)
    return uint4{words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]};
  else
    return uint4{static_cast<unsigned>(words[2 * k]), static_cast<unsigned>(words[2 * k] >> 32),
                 static_cast<unsigned>(words[2 * k + 1]),
                 static_cast<unsigned>(words[2 * k + 1] >> 32)};
}

template <typename Word>
__device__ __forceinline__ void set_chunk(Bank<Word>& bank, int k, uint4 value) {
  if constexpr (sizeof(Word) == 4) {
    bank.words[4 * k] = value.x;
    bank.words[4 * k + 1] = value.y;
    bank.words[4 * k + 2] = value.z;
    bank.words[4 * k + 3] = value.w;
  } else {
    bank.words[2 * k] = Word{value.y} << 32 | value.x;
    bank.words[2 * k + 1] = Word{value.w} << 32 | value.z;
  }
}

/// All of a thread's elements at once; `data` is aligned for it.
template <int bytes, typename Word>
__device__ __forceinline__ void load_packed(Bank<Word>& bank, const void* data) {
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int k = 0; k < bytes / 16; ++k) set_chunk(bank, k, static_cast<const uint4*>(data)[k]);
  } else if constexpr (bytes == 8) {
    const uint2 value = *static_cast<const uint2*>(data);
    set_chunk(bank, 0, uint4{value.x, value.y, 0, 0});
  } else {
    bank.words[0] = *static_cast<const unsigned*>(data);
  }
}

template <int bytes, typename Word>
__device__ __forceinline__ void store_packed(const Bank<Word>& bank, void* data) {
  if constexpr (bytes >= 16) {
#pragma unroll
    for (int k = 0; k < bytes / 16; ++k) static_cast<uint4*>(data)[k] = chunk(bank, k);
  } else if constexpr (bytes == 8) {
    const uint4 value = chunk(bank, 0);
    *static_cast<uint2*>(data) = uint2{value.x, value.y};
  } else {
    *static_cast<unsigned*>(data) = static_cast<unsigned>(bank.words[0]);
  }
}

// Where operands lie

/// Offset of the operand's element for flat index `index` of the output.
__device__ __forceinline__ std::int64_t offset_of(const ElementwiseCode& code,
                                                  const CodeInput& input, std::int64_t index) {
  std::int64_t offset = 0;
  if (code.has_small_indices) {
    std::uint32_t rest = static_cast<std::uint32_t>(index);
#pragma unroll 1
    for (int d = code.dimensions - 1; d > 0; --d)
      offset += code.divisors[d].divide(rest) * input.strides[d];
    return offset + rest * input.strides[0];
  }
#pragma unroll 1
  for (int d = code.dimensions - 1; d > 0; --d) {
    offset += index % code.extents[d] * input.strides[d];
    index /= code.extents[d];
  }
  return offset + index * input.strides[0];
}

/// The place in its row of the output's element `index`.
__device__ __forceinline__ std::int64_t column_of(const ElementwiseCode& code, std::int64_t index) {
  const int inner = code.dimensions - 1;
  if (!code.has_small_indices) return index % code.extents[inner];
  auto column = static_cast<std::uint32_t>(index);
  return code.divisors[inner].divide(column);
}

/// Loads the elements for the output's elements [index, index + count), packed. Where there are
/// fewer than the bank holds, the last one is repeated.
template <typename E, typename Word>
__device__ __forceinline__ void load_as(Bank<Word>& bank, const ElementwiseCode& code,
                                        const CodeInput& input, std::int64_t index, int count) {
  constexpr int width = width_of<Word>;
  const E* data = static_cast<const E*>(input.data);
  bank = {};
  if (input.access == Access::one) return set_piece<E>(bank, 0, data[0]);
  std::int64_t offset = input.access == Access::contiguous ? index : offset_of(code, input, index);
  if (input.access == Access::one_a_row) return set_piece<E>(bank, 0, data[offset]);
  if (input.access == Access::scattered) {
#pragma unroll 1
    for (int i = 0; i < width; ++i) {
      const int at = i < count ? i : count - 1;
      push_piece(bank, data[offset_of(code, input, index + at)]);
    }
    return;
  }
  if (input.is_aligned && input.access != Access::runs && count == width)
    return load_packed<width * sizeof(E)>(bank, data + offset);
  // One run, or two: the second begins where the row ends.
  std::int64_t first_run = width;
  std::int64_t second = offset;
  std::int64_t stride = 1;
  if (input.access == Access::runs) {
    const int inner = code.dimensions - 1;
    stride = input.strides[inner];
    first_run = code.extents[inner] - column_of(code, index);
    if (first_run < count) second = offset_of(code, input, index + first_run) - first_run * stride;
  }
  E elements[width];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const int at = i < count ? i : count - 1;
    elements[i] = data[(at < first_run ? offset : second) + at * stride];
  }
#pragma unroll
  for (int i = 0; i < width; ++i) set_piece<E>(bank, i, elements[i]);
}

template <typename Word>
__device__ __forceinline__ void load(Bank<Word>& bank, const ElementwiseCode& code,
                                     const CodeInput& input, std::int64_t index, int count) {
  switch (input.element_bytes) {
    case 1:
      return load_as<std::uint8_t>(bank, code, input, index, count);
    case 2:
      return load_as<std::uint16_t>(bank, code, input, index, count);
    case 4:
      return load_as<std::uint32_t>(bank, code, input, index, count);
    default:
      if constexpr (sizeof(Word) == 8)
        return load_as<std::uint64_t>(bank, code, input, index, count);
  }
}

// From memory's types to registers' and back

template <typename Word>
__device__ __forceinline__ void unpack(Bank<Word>& bank, Source source,
                                       const ElementwiseCode& code) {
  if (source.kind != Source::Kind::input) return;
  const CodeInput& input = code.inputs[source.index];
  const bool is_one = input.access == Access::one || input.access == Access::one_a_row;
  visit_stored(input.type, StoredIn<Word>{}, [&]<typename Stored>(Stored) {
    using E = Bits<sizeof(Stored)>;
    if (is_one) {
      const Word word = unpacked<Word, Stored>(piece<E>(bank, 0));
#pragma unroll
      for (int i = 0; i < width_of<Word>; ++i) bank.words[i] = word;
    } else if constexpr (sizeof(Stored) != sizeof(Word)) {
      const Bank<Word> loaded = bank;
#pragma unroll
      for (int i = 0; i < width_of<Word>; ++i)
        bank.words[i] = unpacked<Word, Stored>(piece<E>(loaded, i));
    }
  });
}

/// Rounds floats to half types, wraps integers to narrower ones.
template <typename Word>
__device__ __forceinline__ void round_to(DataType type, Bank<Word>& bank) {
  visit_stored(type, Rounded{}, [&]<typename Stored>(Stored) {
#pragma unroll
    for (int i = 0; i < width_of<Word>; ++i)
      bank.words[i] = unpacked<Word, Stored>(packed<Stored>(bank.words[i]));
  });
}

template <typename Word>
__device__ __forceinline__ void store(const Bank<Word>& bank, const ElementwiseCode& code,
                                      std::int64_t index, int count) {
  constexpr int width = width_of<Word>;
  visit_stored(code.output_type, StoredIn<Word>{}, [&]<typename Stored>(Stored) {
    using E = Bits<sizeof(Stored)>;
    E* data = static_cast<E*>(code.output) + index;
    if (code.output_is_aligned && count == width) {
      Bank<Word> together;
#pragma unroll
      for (int i = 0; i < width; ++i) set_piece<E>(together, i, packed<Stored>(bank.words[i]));
      store_packed<width * sizeof(E)>(together, data);
    } else {
#pragma unroll
      for (int i = 0; i < width; ++i)
        if (i < count) data[i] = packed<Stored>(bank.words[i]);
    }
  });
}

// Instructions

/// Functions for which it does not pay to have their code for each of a thread's elements.
template <typename F>
inline constexpr bool is_long =
    is_one_of<F, functions::Pow, functions::PowOfInteger, functions::FloorMod,
              functions::TruncatedMod, functions::Asin, functions::Acos, functions::Atan,
              functions::Sinh, functions::Cosh, functions::Asinh, functions::Acosh,
              functions::Atanh, functions::Mish, functions::Softplus>;
/// Floats and bools in 32 bits are what models consist of.
template <typename F, typename T, typename Word>
inline constexpr bool is_unrolled = sizeof(Word) == 4 && (std::same_as<T, float> ||
                                                          std::same_as<T, Boolean>)&&!is_long<F>;

template <typename F, typename T, typename Word>
__device__ __forceinline__ Word call(const F& function, Word a, Word b, Word c) {
  if constexpr (std::same_as<OperandTypes<F, T>, Types<T>>)
    return to_word<Word>(function(from_word<T>(a)));
  else if constexpr (std::same_as<OperandTypes<F, T>, Types<T, T>>)
    return to_word<Word>(function(from_word<T>(a), from_word<T>(b)));
  else
    return to_word<Word>(function(from_word<Boolean>(a), from_word<T>(b), from_word<T>(c)));
}

template <typename F, typename T, typename Word>
__device__ __forceinline__ void apply(const Parameters& parameters, Bank<Word>& a, Bank<Word>& b,
                                      Bank<Word>& c) {
  const F function = make_function<F>(parameters);
  if constexpr (is_unrolled<F, T, Word>) {
#pragma unroll
    for (int i = 0; i < width_of<Word>; ++i)
      a.words[i] = call<F, T>(function, a.words[i], b.words[i], c.words[i]);
  } else {
    // The code for one element, past which all are pushed.
#pragma unroll 1
    for (int i = 0; i < width_of<Word>; ++i) {
      push_piece(a, call<F, T>(function, a.words[0], b.words[0], c.words[0]));
      push_piece(b, b.words[0]);
      push_piece(c, c.words[0]);
    }
  }
}

/// The functions that have an instruction for `T`, in order.
template <typename T, typename Word>
inline constexpr auto instructions_on = []<typename... Fs>(Types<Fs...>) {
  constexpr bool is_there[] = {is_instruction<Fs, T, Word>...};
  std::array<FunctionId, std::size_t((is_instruction<Fs, T, Word> + ...))> places{};
  std::size_t next = 0;
  for (FunctionId place = 0; place < function_count; ++place)
    if (is_there[place]) places[next++] = place;
  return places;
}(ElementwiseFunctions{});

/// Finds the function among the instructions [first, last) by bisection, since comparisons with one
/// after the other would take longer than the function.
template <typename T, std::size_t first, std::size_t last, typename Word>
__device__ __forceinline__ void execute_among(const CodeInstruction& instruction, Bank<Word>& a,
                                              Bank<Word>& b, Bank<Word>& c) {
  constexpr FunctionId middle = instructions_on<T, Word>[(first + last) / 2];
  if constexpr (last - first == 1) {
    if (instruction.function == middle)
      apply<typename FunctionAt<middle>::F, T>(instruction.parameters, a, b, c);
  } else if (instruction.function < middle) {
    execute_among<T, first, (first + last) / 2>(instruction, a, b, c);
  } else {
    execute_among<T, (first + last) / 2, last>(instruction, a, b, c);
  }
}

/// Leaves the function's results in `a`.
template <typename Word>
__device__ __forceinline__ void execute(const CodeInstruction& instruction, Bank<Word>& a,
                                        Bank<Word>& b, Bank<Word>& c) {
  visit_stored(instruction.type, TypesIn<Word>{}, [&]<typename T>(T) {
    execute_among<T, 0, instructions_on<T, Word>.size()>(instruction, a, b, c);
  });
}

// The program

/// This thread's part of a slot: its k-th 16 bytes.
__device__ __forceinline__ uint4& slot_chunk(int slot, int k) {
  return reinterpret_cast<uint4*>(
      dynamic_shared())[(slot * 2 + k) * interpreter_threads + threadIdx.x];
}

/// Brings an operand into `bank`, packed where it is an input.
template <typename Word>
__device__ __forceinline__ void fetch(Bank<Word>& bank, Source source,
                                      const Bank<Word>& accumulator, const ElementwiseCode& code,
                                      std::int64_t index, int count) {
  if (source.kind == Source::Kind::accumulator) {
    bank = accumulator;
  } else if (source.kind == Source::Kind::slot) {
#pragma unroll
    for (int k = 0; k < 2; ++k) set_chunk(bank, k, slot_chunk(source.index, k));
  } else if (source.kind == Source::Kind::input) {
    load(bank, code, code.inputs[source.index], index, count);
  }
}

template <typename Word>
__global__ void __launch_bounds__(interpreter_threads)
    interpret(const __grid_constant__ ElementwiseCode code) {
  constexpr int width = width_of<Word>;
  const std::int64_t index = global_thread() * width;
  if (index >= code.elements) return;
  const int count = code.elements - index < width ? static_cast<int>(code.elements - index) : width;
  Bank<Word> a;  // the accumulator
  Bank<Word> b;
  Bank<Word> c;
#pragma unroll 1
  for (int i = 0; i < code.instruction_count; ++i) {
    const CodeInstruction& instruction = code.instructions[i];
    const Source(&sources)[3] = instruction.sources;
    // All loads are under way before the first is needed.
    fetch(c, sources[2], a, code, index, count);
    fetch(b, sources[1], a, code, index, count);
    fetch(a, sources[0], a, code, index, count);
    unpack(c, sources[2], code);
    unpack(b, sources[1], code);
    unpack(a, sources[0], code);
    execute(instruction, a, b, c);
    round_to(instruction.round_to, a);
    if (instruction.save >= 0) {
#pragma unroll
      for (int k = 0; k < 2; ++k) slot_chunk(instruction.save, k) = chunk(a, k);
    }
  }
  store(a, code, index, count);
}

/// Runs code made for `width_of<Word>` elements a thread.
template <typename Word>
void launch_code(cudaStream_t stream, const ElementwiseCode& code) {
  const std::int64_t threads = (code.elements + width_of<Word> - 1) / width_of<Word>;
  LaunchShape shape = a_thread_each(threads, interpreter_threads);
  shape.shared_bytes = static_cast<std::size_t>(code.slots) * slot_bytes;
  launch(stream, shape, interpret<Word>, code);
}

}  // namespace autopar::runtime::cuda
