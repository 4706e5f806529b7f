// BatchNormalization, InstanceNormalization and GroupNormalization, for all devices: images are
// [image, channel, places], scale and bias of a channel each.

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "graph/arena.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/kernel_arguments.h"
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
};

/// Mean and reciprocal of the deviation of each row.
template <typename W>
struct RowMoments {
  W* means;
  W* inverses;
};

template <typename T>
struct ElementItself {
  const T* in;
  AUTOPAR_ELEMENTWISE WideFloat<T> operator()(std::int64_t i) const { return widened(in[i]); }
};

template <typename T>
struct SquaredDistance {
  const T* in;
  WideFloat<T> mean;

  AUTOPAR_ELEMENTWISE WideFloat<T> operator()(std::int64_t i) const {
    const WideFloat<T> x = widened(in[i]) - mean;
    return x * x;
  }
};

/// The elements of rows that lie one behind the other.
template <typename T>
struct RowElements {
  const T* in;
  std::int64_t n;

  AUTOPAR_ELEMENTWISE ElementItself<T> operator()(std::int64_t row) const { return {in + row * n}; }
};

template <typename T>
struct RowDistances {
  const T* in;
  std::int64_t n;
  const WideFloat<T>* means;

  AUTOPAR_ELEMENTWISE SquaredDistance<T> operator()(std::int64_t row) const {
    return {in + row * n, means[row]};
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
  WideFloat<T> mean;
  WideFloat<T> factor;
  WideFloat<T> shift;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    out[i] = narrowed<T>((widened(in[i]) - mean) * factor + shift);
  }
};

/// The planes of images' channels, normalised by their rows' moments.
template <typename T>
struct NormalizedPlanes {
  const T* in;
  T* out;
  const T* scale;
  const T* bias;
  RowMoments<WideFloat<T>> moments;
  std::int64_t channels;
  std::int64_t channels_a_row;
  std::int64_t places;

  AUTOPAR_ELEMENTWISE AffineElement<T> operator()(std::int64_t plane) const {
    const std::int64_t channel = plane % channels;
    const std::int64_t row = plane / channels_a_row;
    return {in + plane * places, out + plane * places, moments.means[row],
            moments.inverses[row] * widened(scale[channel]), widened(bias[channel])};
  }
};

/// GroupNormalization, and InstanceNormalization with a group a channel.
class GroupNormalization {
 public:
  explicit GroupNormalization(const KernelRequest& request);

  std::int64_t scratch_bytes() const {
    return 2 * graph::aligned(groups_.rows() * static_cast<std::int64_t>(sizeof(double)));
  }

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      using W = WideFloat<T>;
      const T* in = io.inputs[0].as<const T>();
      const std::int64_t n = groups_.row_elements();
      const RowMoments<W> moments{reinterpret_cast<W*>(io.scratch),
                                  reinterpret_cast<W*>(io.scratch + scratch_bytes() / 2)};
      loops.sums<W>(groups_.rows(), n, RowElements<T>{in, n}, StoreMean<W>{moments.means, n});
      loops.sums<W>(groups_.rows(), n, RowDistances<T>{in, n, moments.means},
                    StoreInverse<W>{moments.inverses, n, static_cast<W>(groups_.epsilon)});
      loops.rows(groups_.images * groups_.channels, groups_.places,
                 NormalizedPlanes<T>{in, out.as<T>(), io.inputs[1].as<const T>(),
                                     io.inputs[2].as<const T>(), moments, groups_.channels,
                                     groups_.channels / groups_.groups, groups_.places});
    });
  }

 private:
  ChannelGroups groups_;
};

/// The planes of images' channels, normalised by numbers of the channel.
template <typename T>
struct BatchNormalizedPlanes {
  const T* in;
  T* out;
  AnyFloats scale;
  AnyFloats bias;
  AnyFloats mean;
  AnyFloats variance;
  std::int64_t channels;
  std::int64_t places;
  double epsilon;

  AUTOPAR_ELEMENTWISE AffineElement<T> operator()(std::int64_t plane) const {
    using W = WideFloat<T>;
    const std::int64_t channel = plane % channels;
    const double inverse = 1 / std::sqrt(variance.at(channel) + epsilon);
    return {in + plane * places, out + plane * places, static_cast<W>(mean.at(channel)),
            static_cast<W>(inverse * scale.at(channel)), static_cast<W>(bias.at(channel))};
  }
};

/// One channel of all images.
template <typename T>
struct ChannelElement {
  const T* in;  ///< of the first image
  std::int64_t image_elements;
  std::int64_t places;
  double centre;
  bool is_squared;

  AUTOPAR_ELEMENTWISE double operator()(std::int64_t i) const {
    const double x =
        static_cast<double>(widened(in[i / places * image_elements + i % places])) - centre;
    return is_squared ? x * x : x;
  }
};

template <typename T>
struct ChannelElements {
  const T* in;
  std::int64_t channels;
  std::int64_t places;
  const double* means;  ///< may be null

  AUTOPAR_ELEMENTWISE ChannelElement<T> operator()(std::int64_t channel) const {
    return {in + channel * places, channels * places, places,
            means == nullptr ? 0.0 : means[channel], means != nullptr};
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

class BatchNormalization {
 public:
  explicit BatchNormalization(const KernelRequest& request);

  std::int64_t scratch_bytes() const {
    return trains_ ? 2 * graph::aligned(groups_.channels * std::int64_t{sizeof(double)}) : 0;
  }

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    AnyFloats mean(io.inputs[3]);
    AnyFloats variance(io.inputs[4]);
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      const T* in = io.inputs[0].as<const T>();
      if (trains_) take_statistics(in, io, loops, mean, variance);
      loops.rows(groups_.images * groups_.channels, groups_.places,
                 BatchNormalizedPlanes<T>{in, out.as<T>(), AnyFloats(io.inputs[1]),
                                          AnyFloats(io.inputs[2]), mean, variance, groups_.channels,
                                          groups_.places, groups_.epsilon});
    });
  }

 private:
  template <typename T>
  void take_statistics(const T* in, const KernelIo& io, const Loops& loops, AnyFloats& mean,
                       AnyFloats& variance) const {
    const auto take = [&](std::size_t output, std::byte* now, AnyFloats& statistic,
                          const double* means) {
      const std::int64_t n = groups_.images * groups_.places;
      const bool is_kept = io.outputs.size() > output && io.outputs[output].present();
      const AnyFloats running = is_kept ? AnyFloats(io.outputs[output]) : AnyFloats();
      auto* numbers = reinterpret_cast<double*>(now);
      loops.sums<double>(groups_.channels, n,
                         ChannelElements<T>{in, groups_.channels, groups_.places, means},
                         StoreStatistic{numbers, statistic, running, momentum_, n});
      statistic.data = numbers;
      statistic.type = DataType::float64;
      return numbers;
    };
    const double* means = take(1, io.scratch, mean, nullptr);
    take(2, io.scratch + scratch_bytes() / 2, variance, means);
  }

  ChannelGroups groups_;
  bool trains_;
  double momentum_;
};

namespace {

/// Throws Error for a type that is no float, or for numbers that are not one a channel.
ChannelGroups channel_groups_of(const KernelRequest& request) {
  for (const TensorView& input : request.inputs)
    if (!visit_type(input.type, Joined<Floats, Halves>{}, [](auto) {}))
      fail_type(request, input.type);
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

GroupNormalization::GroupNormalization(const KernelRequest& request)
    : groups_(channel_groups_of(request)) {
  groups_.groups = request.node.int_attribute("num_groups", groups_.channels);
  if (groups_.channels > 0 && (groups_.groups < 1 || groups_.channels % groups_.groups != 0))
    fail("node '{}': {} channels do not make {} groups", request.node.name, groups_.channels,
         groups_.groups);
  for (const TensorView& input : request.inputs)
    if (input.type != request.inputs[0].type) fail_type(request, input.type);
}

BatchNormalization::BatchNormalization(const KernelRequest& request)
    : groups_(channel_groups_of(request)),
      trains_(request.node.int_attribute("training_mode", 0) != 0),
      momentum_(static_cast<double>(request.node.float_attribute("momentum", 0.9F))) {}

std::unique_ptr<Kernel> make_batch_normalization(const KernelRequest& request) {
  return make_loops<BatchNormalization>(request);
}
std::unique_ptr<Kernel> make_group_normalization(const KernelRequest& request) {
  return make_loops<GroupNormalization>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
