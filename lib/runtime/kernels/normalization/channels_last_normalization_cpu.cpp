// GroupNormalization and InstanceNormalization of float32 images whose channels are last. Channels
// are added up side by side, in float64. Threads share the places, in parts of a fixed size, so
// that results do not depend on how many threads there are.

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cpu {
namespace {

/// Images [image, place, channel], whose channels in groups share a mean and a variance.
struct Grouped {
  static constexpr std::int64_t places_a_part = 256;

  std::int64_t images = 0;
  std::int64_t places = 1;
  std::int64_t channels = 0;
  std::int64_t groups = 0;
  double epsilon = 0;

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t parts() const { return (places + places_a_part - 1) / places_a_part; }
};

constexpr std::int64_t most_channels = 256;  // that are added up at a time
using Sums = std::array<double, most_channels>;

/// Some places of an image, and some of its channels.
struct Places {
  const float* in;  ///< the first place's first of the channels
  std::int64_t count;
  std::int64_t stride;    ///< from place to place
  std::int64_t channels;  ///< at most most_channels
};

struct AddUp {
  [[gnu::always_inline]] static inline void run(const Places& of, const float*, Sums& sums) {
    for (std::int64_t p = 0; p < of.count; ++p) {
      const float* const row = of.in + p * of.stride;
      for (std::int64_t c = 0; c < of.channels; ++c)
        sums[static_cast<std::size_t>(c)] += double{row[c]};
    }
  }
};

struct AddUpSquares {
  [[gnu::always_inline]] static inline void run(const Places& of, const float* means, Sums& sums) {
    for (std::int64_t p = 0; p < of.count; ++p) {
      const float* const row = of.in + p * of.stride;
      for (std::int64_t c = 0; c < of.channels; ++c) {
        const double distance = double{row[c]} - double{means[c]};
        sums[static_cast<std::size_t>(c)] += distance * distance;
      }
    }
  }
};

struct Normalize {
  [[gnu::always_inline]] static inline void run(const float* in, float* out, std::int64_t places,
                                                std::int64_t channels, const float* means,
                                                const float* factors, const float* shifts) {
    for (std::int64_t p = 0; p < places; ++p, in += channels, out += channels)
      for (std::int64_t c = 0; c < channels; ++c)
        out[c] = (in[c] - means[c]) * factors[c] + shifts[c];
  }
};

template <typename Body>
SimdFunction<const Places&, const float*, Sums&> adding_function() {
  return simd_function<Body, const Places&, const float*, Sums&>(simd_level());
}

class ChannelsLastNormalization final : public Kernel {
 public:
  ChannelsLastNormalization(const Grouped& of, int threads) : of_(of), threads_(threads) {}

  std::int64_t scratch_bytes() const override { return sum_bytes() + 3 * vector_bytes(); }

  void run(const KernelIo& io) override {
    const auto* const in = io.inputs[0].as<const float>();
    auto* const sums = reinterpret_cast<double*>(io.scratch);
    const auto vector = [&](int i) {
      return reinterpret_cast<float*>(io.scratch + sum_bytes() + i * vector_bytes());
    };
    float* const means = vector(0);
    float* const factors = vector(1);
    float* const shifts = vector(2);
    add_up(adding_function<AddUp>(), in, nullptr, sums);
    for_each_channel([&](std::int64_t image, std::int64_t channel, std::int64_t at) {
      means[at] = static_cast<float>(mean_of(sums, image, channel));
    });
    add_up(adding_function<AddUpSquares>(), in, means, sums);
    for_each_channel([&](std::int64_t image, std::int64_t channel, std::int64_t at) {
      const double inverse = 1 / std::sqrt(mean_of(sums, image, channel) + of_.epsilon);
      factors[at] = static_cast<float>(inverse * double{io.inputs[1].as<const float>()[channel]});
      shifts[at] = io.inputs[2].as<const float>()[channel];
    });
    normalize(in, io.outputs[0].as<float>(), means, factors, shifts);
  }

 private:
  std::int64_t sum_bytes() const {
    return graph::aligned(of_.images * of_.parts() * of_.groups * std::int64_t{sizeof(double)});
  }
  std::int64_t vector_bytes() const {
    return graph::aligned(of_.images * of_.channels * std::int64_t{sizeof(float)});
  }

  /// Calls `visit(image, channel, number)`.
  template <typename Visit>
  void for_each_channel(Visit visit) const {
    for (std::int64_t image = 0; image < of_.images; ++image)
      for (std::int64_t channel = 0; channel < of_.channels; ++channel)
        visit(image, channel, image * of_.channels + channel);
  }

  /// Divides the sum over a channel's group, which `sums` has for each part of the places.
  double mean_of(const double* sums, std::int64_t image, std::int64_t channel) const {
    double sum = 0;
    for (std::int64_t part = 0; part < of_.parts(); ++part)
      sum += sums[(image * of_.parts() + part) * of_.groups + channel / of_.group_channels()];
    return sum / static_cast<double>(of_.places * of_.group_channels());
  }

  std::int64_t first_place(std::int64_t part) const {
    return std::min(part * Grouped::places_a_part, of_.places);
  }

  /// Makes the sums of each image, part of its places, and group.
  void add_up(SimdFunction<const Places&, const float*, Sums&> add, const float* in,
              const float* means, double* sums) const {
    for_in_threads(threads_, of_.images * of_.parts(), [&](std::int64_t i) {
      const std::int64_t image = i / of_.parts();
      const std::int64_t place = first_place(i % of_.parts());
      const std::int64_t count = first_place(i % of_.parts() + 1) - place;
      double* const of_groups = sums + i * of_.groups;
      std::fill_n(of_groups, of_.groups, 0.0);
      for (std::int64_t first = 0; first < of_.channels; first += most_channels) {
        const std::int64_t channels = std::min(most_channels, of_.channels - first);
        Sums of_channels = {};
        add({in + (image * of_.places + place) * of_.channels + first, count, of_.channels,
             channels},
            means == nullptr ? nullptr : means + image * of_.channels + first, of_channels);
        for (std::int64_t c = 0; c < channels; ++c)
          of_groups[(first + c) / of_.group_channels()] += of_channels[static_cast<std::size_t>(c)];
      }
    });
  }

  void normalize(const float* in, float* out, const float* means, const float* factors,
                 const float* shifts) const {
    static const auto run =
        simd_function<Normalize, const float*, float*, std::int64_t, std::int64_t, const float*,
                      const float*, const float*>(simd_level());
    for_in_threads(threads_, of_.images * of_.parts(), [&](std::int64_t i) {
      const std::int64_t image = i / of_.parts();
      const std::int64_t place = first_place(i % of_.parts());
      const std::int64_t at = (image * of_.places + place) * of_.channels;
      const std::int64_t vector = image * of_.channels;
      run(in + at, out + at, first_place(i % of_.parts() + 1) - place, of_.channels, means + vector,
          factors + vector, shifts + vector);
    });
  }

  Grouped of_;
  int threads_;
};

}  // namespace

bool serves_channels_last_normalization(const graph::Node& node, std::span<const TensorView> inputs,
                                        std::span<const TensorView> outputs) {
  const auto is_float = [](const TensorView& view) { return view.type == DataType::float32; };
  const std::int64_t channels = inputs[1].elements();
  const std::int64_t groups = node.int_attribute("num_groups", channels);
  return std::ranges::all_of(inputs, is_float) && outputs[0].elements() > 0 && groups > 0 &&
         channels % groups == 0;
}

std::unique_ptr<Kernel> make_channels_last_normalization(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  Grouped of{.images = shape.front(), .channels = shape.back()};
  for (std::size_t d = 1; d + 1 < shape.size(); ++d) of.places *= shape[d];
  of.groups = request.node.int_attribute("num_groups", of.channels);
  of.epsilon = static_cast<double>(request.node.float_attribute("epsilon", 1e-5F));
  return std::make_unique<ChannelsLastNormalization>(of, request.device.threads());
}

}  // namespace autopar::runtime::cpu
