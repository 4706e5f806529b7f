// MaxPool and AveragePool of float32 images whose channels are second, row by row: the rows that an
// output row sees become one, padding included, and of that one each tap is a loop over vectors.
// oneDNN goes through such images window by window.

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/simd_clones.h"
#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/pooling.h"

namespace autopar::runtime::cpu {
namespace {

constexpr int depth = 0;  ///< dimensions of Windows
constexpr int height = 1;
constexpr int width = 2;

/// Elements from the first that a row sees under a tap to the next one.
template <int stride>
struct Step {
  std::int64_t at(std::int64_t i) const { return i * stride; }
};
template <>
struct Step<0> {
  std::int64_t stride;
  std::int64_t at(std::int64_t i) const { return i * stride; }
};

template <typename Of>
[[gnu::always_inline]] inline void take_larger(const float* in, const Of& step, std::int64_t n,
                                               float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = in[step.at(i)];
    out[i] = x > out[i] ? x : out[i];
  }
}
template <typename Of>
[[gnu::always_inline]] inline void add(const float* in, const Of& step, std::int64_t n,
                                       float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += in[step.at(i)];
}

AUTOPAR_SIMD_CLONES void take_larger(const float* in, std::int64_t stride, std::int64_t n,
                                     float* out) {
  if (stride == 1) return take_larger(in, Step<1>(), n, out);
  if (stride == 2) return take_larger(in, Step<2>(), n, out);
  take_larger(in, Step<0>{stride}, n, out);
}
AUTOPAR_SIMD_CLONES void add(const float* in, std::int64_t stride, std::int64_t n, float* out) {
  if (stride == 1) return add(in, Step<1>(), n, out);
  if (stride == 2) return add(in, Step<2>(), n, out);
  add(in, Step<0>{stride}, n, out);
}
AUTOPAR_SIMD_CLONES void divide(const float* divisors, float divisor, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] /= divisor * divisors[i];
}

/// Floats from the first that a row's first window sees to the last of its last one.
std::int64_t seen_by_row(const Windows& of) {
  return std::int64_t{of.out[width] - 1} * of.strides[width] +
         std::int64_t{of.taps[width] - 1} * of.dilations[width] + 1;
}

enum class PoolingKind { largest, average };

class PoolingRows final : public Kernel {
 public:
  PoolingRows(const KernelRequest& request, const Pooling& pooling, PoolingKind kind)
      : windows_(pooling.windows),
        kind_(kind),
        planes_(request.inputs[0].shape[0] * request.inputs[0].shape[1]),
        seen_(seen_by_row(pooling.windows)),
        threads_(request.device.threads()) {
    const bool counts_padding = request.node.int_attribute("count_include_pad", 0) != 0;
    for (int d = 0; d < Windows::dimensions; ++d)
      counts_[static_cast<std::size_t>(d)] = counts_along(pooling, d, counts_padding);
  }

  std::int64_t scratch_bytes() const override { return threads_ * seen_bytes(); }

  void run(const KernelIo& io) override {
    const std::int64_t rows = planes_ * windows_.out[depth] * windows_.out[height];
    constexpr std::int64_t least_work = 1 << 14;  // elements that are worth waking a thread for
    const bool is_large = rows * windows_.out[width] * windows_.tap_places() > least_work;
    for_in_threads(is_large ? threads_ : 1, rows, [&](std::int64_t row) {
      pool_row(io.inputs[0].as<const float>(), row,
               reinterpret_cast<float*>(io.scratch + omp_get_thread_num() * seen_bytes()),
               io.outputs[0].as<float>());
    });
  }

 private:
  /// What an average is divided by, as the product of one number a dimension.
  static std::vector<float> counts_along(const Pooling& pooling, int d, bool counts_padding) {
    std::vector<float> counts;
    for (int place = 0; place < pooling.windows.out[d]; ++place) {
      Place at(0, pooling.windows.out);
      at.at[d] = place;
      const TapsInside taps(pooling.windows, at);
      counts.push_back(static_cast<float>(
          counts_padding ? taps.taps_before(pooling.windows, d,
                                            pooling.padded_ends[static_cast<std::size_t>(d)])
                         : taps.last[d] - taps.first[d]));
    }
    return counts;
  }

  std::int64_t seen_bytes() const { return graph::aligned(seen_ * 4); }

  void combine(const float* in, std::int64_t stride, std::int64_t n, float* out) const {
    if (kind_ == PoolingKind::average)
      add(in, stride, n, out);
    else
      take_larger(in, stride, n, out);
  }

  /// `seen` is memory for what the row sees.
  void pool_row(const float* in, std::int64_t row, float* seen, float* out) const {
    Place place(0, windows_.out);
    place.at[height] = static_cast<int>(row % windows_.out[height]);
    place.at[depth] = static_cast<int>(row / windows_.out[height] % windows_.out[depth]);
    const std::int64_t plane = row / windows_.out[height] / windows_.out[depth];
    const bool is_average = kind_ == PoolingKind::average;
    std::fill_n(seen, seen_, is_average ? 0 : -std::numeric_limits<float>::infinity());
    const TapsInside taps(windows_, place);
    for (std::int64_t z = taps.first[depth]; z < taps.last[depth]; ++z)
      for (std::int64_t y = taps.first[height]; y < taps.last[height]; ++y) {
        const std::int64_t in_plane =
            plane * windows_.in[depth] + taps.begin[depth] + z * windows_.dilations[depth];
        const std::int64_t in_row =
            in_plane * windows_.in[height] + taps.begin[height] + y * windows_.dilations[height];
        see_row(in + in_row * windows_.in[width], seen);
      }
    const std::int64_t columns = windows_.out[width];
    float* const to = out + row * columns;
    std::fill_n(to, columns, is_average ? 0 : -std::numeric_limits<float>::infinity());
    for (std::int64_t tap = 0; tap < windows_.taps[width]; ++tap)
      combine(seen + tap * windows_.dilations[width], windows_.strides[width], columns, to);
    if (is_average)
      divide(counts_[width].data(),
             counts_[depth][static_cast<std::size_t>(place.at[depth])] *
                 counts_[height][static_cast<std::size_t>(place.at[height])],
             columns, to);
  }

  /// The part of an input row that is no padding.
  void see_row(const float* row, float* seen) const {
    const std::int64_t pad = windows_.pads[width];
    const std::int64_t first = std::max<std::int64_t>(pad, 0);
    const std::int64_t last = std::min(seen_, pad + windows_.in[width]);
    if (first < last) combine(row + first - pad, 1, last - first, seen + first);
  }

  Windows windows_;
  PoolingKind kind_;
  std::int64_t planes_;  ///< channels of all images
  std::int64_t seen_;    ///< floats of a row
  int threads_;
  std::array<std::vector<float>, Windows::dimensions> counts_;  ///< by place
};

/// Whether rows are long enough to be taken at once, and not mostly padding, as far taps see.
bool pays(const KernelRequest& request, const Pooling& pooling) {
  constexpr int least_columns = 8;
  const std::int64_t places = std::int64_t{pooling.windows.in[width]} + pooling.windows.out[width];
  return request.inputs[0].type == DataType::float32 && request.outputs[0].elements() > 0 &&
         request.inputs[0].elements() > 0 && pooling.sees_image &&
         pooling.windows.out[width] >= least_columns && seen_by_row(pooling.windows) <= 4 * places;
}

}  // namespace

std::unique_ptr<Kernel> make_average_pool_by_rows(const KernelRequest& request) {
  const Pooling pooling(request);
  if (!pays(request, pooling)) return nullptr;
  return std::make_unique<PoolingRows>(request, pooling, PoolingKind::average);
}

std::unique_ptr<Kernel> make_max_pool_by_rows(const KernelRequest& request) {
  const Pooling pooling(request);
  if (is_given(request.outputs, 1) || !pays(request, pooling)) return nullptr;
  return std::make_unique<PoolingRows>(request, pooling, PoolingKind::largest);
}

}  // namespace autopar::runtime::cpu
