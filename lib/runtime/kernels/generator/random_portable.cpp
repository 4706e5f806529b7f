// Random numbers by Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC 11): those of an element depend on the seed and the element's number alone,
// so that all ranks and devices draw the same. A node without a seed has one made of its name.
// Every run draws the same numbers. An item is an element.

#include <bit>
#include <cmath>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/generator/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

struct RandomBits {
  std::uint32_t words[4];
};

/// Ten rounds on the counter (element, 0) under the key `seed`.
AUTOPAR_ELEMENTWISE RandomBits random_bits(std::uint64_t seed, std::uint64_t element) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(element),
                        static_cast<std::uint32_t>(element >> 32), 0, 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(second >> 32) ^ c[1] ^ key[0],
                                   static_cast<std::uint32_t>(second),
                                   static_cast<std::uint32_t>(first >> 32) ^ c[3] ^ key[1],
                                   static_cast<std::uint32_t>(first)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// A number of 53 random bits, in [0, 1).
AUTOPAR_ELEMENTWISE double uniform_of(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

inline std::uint64_t seed_of(const KernelRequest& request) {
  if (request.node.has_attribute("seed"))
    return std::bit_cast<std::uint32_t>(request.node.float_attribute("seed", 0));
  // FNV-1a, with a bit that no given seed has.
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : request.node.name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3U;
  }
  return hash | std::uint64_t{1} << 63;
}

AUTOPAR_ELEMENTWISE double uniform(std::uint64_t seed, std::int64_t element) {
  const RandomBits bits = random_bits(seed, static_cast<std::uint64_t>(element));
  return uniform_of(bits.words[0], bits.words[1]);
}
/// Box and Muller's method on one minus a uniform number, which is not 0.
AUTOPAR_ELEMENTWISE double normal(std::uint64_t seed, std::int64_t element) {
  const RandomBits bits = random_bits(seed, static_cast<std::uint64_t>(element));
  const double radius = std::sqrt(-2 * std::log(1 - uniform_of(bits.words[0], bits.words[1])));
  constexpr double whole_turn = 6.283185307179586;
  return radius * std::cos(whole_turn * uniform_of(bits.words[2], bits.words[3]));
}

/// RandomUniform, RandomNormal and their forms "Like".
template <typename T, bool is_normal>
struct RandomElement {
  T* out;
  std::uint64_t seed;
  double start;
  double range;

  std::int64_t item_work() const { return 32; }
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    out[i] = narrowed<T>(start + range * (is_normal ? normal(seed, i) : uniform(seed, i)));
  }
};

/// 1 with the probability that the input's element is.
template <typename P, typename T>
struct BernoulliElement {
  const P* in;
  T* out;
  std::uint64_t seed;

  std::int64_t item_work() const { return 32; }
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const bool is_drawn = uniform(seed, i) < static_cast<double>(widened(in[i]));
    out[i] = narrowed<T>(is_drawn ? 1.0F : 0.0F);
  }
};

/// One of the classes of a row, whose elements are logarithms of probabilities up to a factor.
template <typename P, typename T>
struct MultinomialElement {
  const P* in;
  T* out;
  std::uint64_t seed;
  std::int64_t classes;
  std::int64_t samples;

  std::int64_t item_work() const { return 16 * classes; }
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const P* row = in + item / samples * classes;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < classes; ++i) {
      const auto x = static_cast<double>(widened(row[i]));
      largest = x > largest ? x : largest;
    }
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i)
      sum += std::exp(static_cast<double>(widened(row[i])) - largest);
    double rest = uniform(seed, item) * sum;
    std::int64_t drawn = 0;
    for (std::int64_t i = 0; i < classes; ++i) {
      const double share = std::exp(static_cast<double>(widened(row[i])) - largest);
      if (share <= 0) continue;
      drawn = i;
      if (rest < share) break;
      rest -= share;
    }
    out[item] = static_cast<T>(drawn);
  }
};

template <bool is_normal>
std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  const double start = request.node.float_attribute(is_normal ? "mean" : "low", 0);
  const double range = is_normal ? request.node.float_attribute("scale", 1)
                                 : request.node.float_attribute("high", 1) - start;
  const std::uint64_t seed = seed_of(request);
  return kernel_for_type(request, request.outputs.at(0).type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 RandomElement<T, is_normal>{io.outputs[0].as<T>(), seed, start, range});
    });
  });
}

std::unique_ptr<Kernel> make_random_uniform(const KernelRequest& request) {
  return make_random<false>(request);
}
std::unique_ptr<Kernel> make_random_normal(const KernelRequest& request) {
  return make_random<true>(request);
}

std::unique_ptr<Kernel> make_bernoulli(const KernelRequest& request) {
  const std::uint64_t seed = seed_of(request);
  const DataType out = stored_type(request.outputs.at(0).type);
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{}, [&]<typename P>(P) {
    return kernel_for_type(request, out, AllNumbers{}, [&]<typename T>(T) {
      return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
        loops.each(io.outputs[0].elements(),
                   BernoulliElement<P, T>{io.inputs[0].as<const P>(), io.outputs[0].as<T>(), seed});
      });
    });
  });
}

std::unique_ptr<Kernel> make_multinomial(const KernelRequest& request) {
  if (request.inputs.at(0).shape.size() != 2 || request.inputs[0].shape[1] == 0)
    fail("node '{}': Multinomial draws among the columns of a matrix", request.node.name);
  const std::uint64_t seed = seed_of(request);
  const std::int64_t classes = request.inputs[0].shape[1];
  const DataType out = request.outputs.at(0).type;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename P>(P) {
    return kernel_for_type(request, out, Types<std::int32_t, std::int64_t>{}, [&]<typename T>(T) {
      return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
        loops.each(io.outputs[0].elements(),
                   MultinomialElement<P, T>{io.inputs[0].as<const P>(), io.outputs[0].as<T>(), seed,
                                            classes, io.outputs[0].shape.back()});
      });
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
