// BatchNormalization, InstanceNormalization and GroupNormalization, for all devices: images are
// [image, channel, places], scale and bias of a channel each.

#include <cmath>
#include <cstdint>

#include "graph/arena.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Images whose channels, in groups, share a mean and a variance.
struct ChannelGroups {
  std::int64_t images = 1;
  std::int64_t channels = 1;
  std::int64_t places = 1;
  std::int64_t groups = 1;
  double epsilon = 1e-5;

  std::int64_t rows() const { return images * groups; }
  std::int64_t row_elements() const { return channels / groups * places; }
  /// The size of a tensor with one number a channel.
  std::int64_t statistic_bytes() const {
    return graph::aligned(channels * std::int64_t{sizeof(double)});
  }
};

/// The elements of rows of n that lie one behind the other.
template <typename T>
struct RowElements {
  const T* in;  ///< [rows, n]
  std::int64_t n;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    return [from = in + row * n](std::int64_t i) -> Widened<T> { return widened(from[i]); };
  }
};

/// Their squared distances from the means of their rows.
template <typename T>
struct RowDistances {
  const T* in;  ///< [rows, n]
  std::int64_t n;
  const Widened<T>* means;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    return [from = in + row * n, mean = means[row]](std::int64_t i) {
      const Widened<T> x = widened(from[i]) - mean;
      return x * x;
    };
  }
};

template <typename W>
struct StoreMean {
  W* means;
  std::int64_t n;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row, W sum) const {
    means[row] = sum / static_cast<W>(n);
  }
};

template <typename W>
struct StoreInverse {
  W* inverses;
  std::int64_t n;
  W epsilon;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row, W sum) const {
    inverses[row] = 1 / static_cast<W>(std::sqrt(sum / static_cast<W>(n) + epsilon));
  }
};

/// out = (in - mean) factor + shift.
template <typename T>
struct AffineElement {
  const T* in;
  T* out;
  Widened<T> mean;
  Widened<T> factor;
  Widened<T> shift;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    out[i] = narrowed<T>((widened(in[i]) - mean) * factor + shift);
  }
};

/// The planes of images' channels, normalised by their rows' moments.
template <typename T>
struct NormalizedPlanes {
  const T* in;                 ///< [images, channels, places]
  T* out;                      ///< as in
  const T* scale;              ///< [channels]
  const T* bias;               ///< [channels]
  const Widened<T>* means;     ///< of rows
  const Widened<T>* inverses;  ///< of their deviations
  std::int64_t channels;
  std::int64_t channels_a_row;
  std::int64_t places;

  AUTOPAR_ELEMENTWISE AffineElement<T> operator()(std::int64_t plane) const {
    const std::int64_t channel = plane % channels;
    const std::int64_t row = plane / channels_a_row;
    return {in + plane * places, out + plane * places, means[row],
            inverses[row] * widened(scale[channel]), widened(bias[channel])};
  }
};

/// The planes of images' channels, normalised by numbers of the channel.
template <typename T>
struct BatchNormalizedPlanes {
  const T* in;  ///< [images, channels, places]
  T* out;       ///< as in
  AnyFloats scale;
  AnyFloats bias;
  AnyFloats mean;
  AnyFloats variance;
  std::int64_t channels;
  std::int64_t places;
  double epsilon;

  AUTOPAR_ELEMENTWISE AffineElement<T> operator()(std::int64_t plane) const {
    using W = Widened<T>;
    const std::int64_t channel = plane % channels;
    const double inverse = 1 / std::sqrt(variance.at(channel) + epsilon);
    return {in + plane * places, out + plane * places, static_cast<W>(mean.at(channel)),
            static_cast<W>(inverse * scale.at(channel)), static_cast<W>(bias.at(channel))};
  }
};

/// The channels of all images; their squared distances from the means, where there are any.
template <typename T>
struct ChannelElements {
  const T* in;  ///< [images, channels, places]
  std::int64_t channels;
  std::int64_t places;
  const double* means;  ///< may be null

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t channel) const {
    return [from = in + channel * places, image_elements = channels * places, places = places,
            centre = means == nullptr ? 0.0 : means[channel],
            is_squared = means != nullptr](std::int64_t i) {
      const double x =
          static_cast<double>(widened(from[i / places * image_elements + i % places])) - centre;
      return is_squared ? x * x : x;
    };
  }
};

/// The statistics of this batch, and the running ones where they are outputs.
struct StoreStatistic {
  double* now;
  AnyFloats before;
  AnyFloats running;
  double momentum;
  std::int64_t n;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t channel, double sum) const {
    now[channel] = sum / static_cast<double>(n);
    running.store(channel, before.at(channel) * momentum + now[channel] * (1 - momentum));
  }
};

/// Puts the statistics of this batch, one a channel in scratch memory, in the place of the inputs'.
template <typename T>
void take_statistics(const KernelIo& io, const Loops& loops, const ChannelGroups& groups,
                     double momentum, AnyFloats& mean, AnyFloats& variance) {
  const auto take = [&](std::size_t output, double* now, AnyFloats& statistic,
                        const double* means) {
    const std::int64_t n = groups.images * groups.places;
    const AnyFloats running =
        is_given(io.outputs, output) ? AnyFloats(io.outputs[output]) : AnyFloats();
    loops.sums<double>(
        groups.channels, n,
        ChannelElements<T>{io.inputs[0].as<const T>(), groups.channels, groups.places, means},
        StoreStatistic{now, statistic, running, momentum, n});
    statistic.data = now;
    statistic.type = DataType::float64;
  };
  auto* means = reinterpret_cast<double*>(io.scratch);
  take(1, means, mean, nullptr);
  take(2, reinterpret_cast<double*>(io.scratch + groups.statistic_bytes()), variance, means);
}

namespace {

/// Throws Error for a type that is no float, or for numbers that are not one a channel.
ChannelGroups channel_groups_of(const KernelRequest& request) {
  for (const TensorView& input : request.inputs) require_type(request, input.type, AllFloats{});
  const Shape& shape = request.inputs.at(0).shape;
  ChannelGroups groups;
  groups.epsilon = static_cast<double>(request.node.float_attribute("epsilon", 1e-5F));
  if (shape.empty())
    fail("node '{}': {} of a scalar has no channels", request.node.name, request.node.op_type);
  groups.images = shape[0];
  groups.channels = shape.size() > 1 ? shape[1] : 1;
  for (std::size_t d = 2; d < shape.size(); ++d) groups.places *= shape[d];
  for (std::size_t i = 1; i < request.inputs.size(); ++i)
    if (request.inputs[i].elements() != groups.channels)
      fail("node '{}': input {} of {} has {} numbers for {} channels", request.node.name, i,
           request.node.op_type, request.inputs[i].elements(), groups.channels);
  return groups;
}

}  // namespace

std::unique_ptr<Kernel> make_batch_normalization(const KernelRequest& request) {
  const ChannelGroups groups = channel_groups_of(request);
  const bool trains = request.node.int_attribute("training_mode", 0) != 0;
  const auto momentum = static_cast<double>(request.node.float_attribute("momentum", 0.9F));
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    const auto run = [=](const KernelIo& io, const Loops& loops) {
      AnyFloats mean(io.inputs[3]);
      AnyFloats variance(io.inputs[4]);
      if (trains) take_statistics<T>(io, loops, groups, momentum, mean, variance);
      if (io.outputs[0].elements() == 0) return;
      loops.rows(
          groups.images * groups.channels, groups.places,
          BatchNormalizedPlanes<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(),
                                   AnyFloats(io.inputs[1]), AnyFloats(io.inputs[2]), mean, variance,
                                   groups.channels, groups.places, groups.epsilon});
    };
    return make_loops(request, run, trains ? 2 * groups.statistic_bytes() : 0);
  });
}

/// GroupNormalization, and InstanceNormalization with a group a channel.
std::unique_ptr<Kernel> make_group_normalization(const KernelRequest& request) {
  ChannelGroups groups = channel_groups_of(request);
  groups.groups = request.node.int_attribute("num_groups", groups.channels);
  if (groups.channels > 0 && (groups.groups < 1 || groups.channels % groups.groups != 0))
    fail("node '{}': {} channels do not make {} groups", request.node.name, groups.channels,
         groups.groups);
  for (const TensorView& input : request.inputs)
    if (input.type != request.inputs[0].type) fail_type(request, input.type);
  const std::int64_t moment_bytes = graph::aligned(groups.rows() * std::int64_t{sizeof(double)});
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    const auto run = [=](const KernelIo& io, const Loops& loops) {
      using W = Widened<T>;
      if (io.outputs[0].elements() == 0) return;
      const T* in = io.inputs[0].as<const T>();
      const std::int64_t n = groups.row_elements();
      auto* means = reinterpret_cast<W*>(io.scratch);
      auto* inverses = reinterpret_cast<W*>(io.scratch + moment_bytes);
      loops.sums<W>(groups.rows(), n, RowElements<T>{in, n}, StoreMean<W>{means, n});
      loops.sums<W>(groups.rows(), n, RowDistances<T>{in, n, means},
                    StoreInverse<W>{inverses, n, static_cast<W>(groups.epsilon)});
      loops.rows(groups.images * groups.channels, groups.places,
                 NormalizedPlanes<T>{in, io.outputs[0].as<T>(), io.inputs[1].as<const T>(),
                                     io.inputs[2].as<const T>(), means, inverses, groups.channels,
                                     groups.channels / groups.groups, groups.places});
    };
    return make_loops(request, run, 2 * moment_bytes);
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
