// Softmax, LogSoftmax and MaskedSoftmax. Along the innermost dimension a block takes a row, whose
// elements stay in registers; along another a thread takes a row, since its neighbours' rows lie
// beside it. In float, or double for double.

#include <algorithm>
#include <limits>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/elementwise/math.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cuda {
namespace {

/// NaN stays, and so makes the whole row NaN.
struct Larger {
  template <typename W>
  __device__ W operator()(W x, W y) const {
    return (y > x) | (y != y) ? y : x;
  }
};

constexpr int mask_dimensions = MaskLayout::max_dimensions;

/// What is added to a row before, or chooses from it; by the row's place in the dimensions before
/// the last.
template <typename T>
struct Mask {
  const T* added = nullptr;
  const std::uint8_t* chosen = nullptr;  ///< elements of 0 take `fill` instead
  Widened<T> fill = 0;
  std::int64_t extents[mask_dimensions] = {1, 1, 1, 1};
  std::int64_t strides[mask_dimensions] = {};
  std::int64_t column_stride = 0;

  __device__ std::int64_t row_offset(std::int64_t row) const {
    std::int64_t offset = 0;
#pragma unroll
    for (int d = mask_dimensions - 1; d >= 0; --d) {
      offset += row % extents[d] * strides[d];
      row /= extents[d];
    }
    return offset;
  }
  __device__ Widened<T> apply(Widened<T> x, std::int64_t at) const {
    if (added != nullptr) return x + static_cast<Widened<T>>(widened(added[at]));
    if (chosen != nullptr) return chosen[at] != 0 ? x : fill;
    return x;
  }
};

template <typename T>
struct Rows {
  const T* in;  ///< [rows, extent], or [outer, extent, inner]
  T* out;       ///< as in
  std::int64_t extent;
  Widened<T> scale;
  Mask<T> mask;
  bool logarithm;
  bool nan_to_zero;  ///< of a whole row
};

/// Elements of a row that a thread keeps; longer rows are read three times.
constexpr int kept_elements = 16;
constexpr int row_threads = 512;

template <typename T>
__global__ void __launch_bounds__(row_threads) softmax_rows(Rows<T> rows) {
  using W = Widened<T>;
  const std::int64_t row = blockIdx.x;
  const T* in = rows.in + row * rows.extent;
  T* out = rows.out + row * rows.extent;
  const std::int64_t mask_row = rows.mask.row_offset(row);
  const auto read = [&](std::int64_t i) {
    return rows.mask.apply(static_cast<W>(widened(in[i])) * rows.scale,
                           mask_row + i * rows.mask.column_stride);
  };
  const std::int64_t step = blockDim.x;
  const std::int64_t first = threadIdx.x;
  const std::int64_t beyond = first + kept_elements * step;
  const W lowest = -std::numeric_limits<W>::infinity();
  W kept[kept_elements];
#pragma unroll
  for (int i = 0; i < kept_elements; ++i)
    kept[i] = first + i * step < rows.extent ? read(first + i * step) : lowest;

  W largest = lowest;
#pragma unroll
  for (int i = 0; i < kept_elements; ++i) largest = Larger{}(largest, kept[i]);
  for (std::int64_t i = beyond; i < rows.extent; i += step) largest = Larger{}(largest, read(i));
  largest = reduce_block(largest, lowest, Larger{});

  W sum = 0;
#pragma unroll
  for (int i = 0; i < kept_elements; ++i)
    if (first + i * step < rows.extent) sum += math::exp(kept[i] - largest);
  for (std::int64_t i = beyond; i < rows.extent; i += step) sum += math::exp(read(i) - largest);
  sum = reduce_block(sum, W{0}, Plus{});

  // Taken off one after the other: beside a large number the logarithm would be lost.
  const W log_sum = math::log(sum);
  const W share = W{1} / sum;
  const bool is_nothing = rows.nan_to_zero && !(sum > 0);
  const auto result = [&](W x) {
    if (is_nothing) return narrowed<T>(W{0});
    return narrowed<T>(rows.logarithm ? x - largest - log_sum : math::exp(x - largest) * share);
  };
#pragma unroll
  for (int i = 0; i < kept_elements; ++i)
    if (first + i * step < rows.extent) out[first + i * step] = result(kept[i]);
  for (std::int64_t i = beyond; i < rows.extent; i += step) out[i] = result(read(i));
}

template <typename T>
__global__ void softmax_columns(Rows<T> rows, std::int64_t outer, std::int64_t inner) {
  using W = Widened<T>;
  const std::int64_t row = global_thread();
  if (row >= outer * inner) return;
  const std::int64_t begin = row / inner * rows.extent * inner + row % inner;
  const auto read = [&](std::int64_t i) {
    return static_cast<W>(widened(rows.in[begin + i * inner]));
  };
  W largest = -std::numeric_limits<W>::infinity();
  for (std::int64_t i = 0; i < rows.extent; ++i) largest = Larger{}(largest, read(i));
  W sum = 0;
  for (std::int64_t i = 0; i < rows.extent; ++i) sum += math::exp(read(i) - largest);
  const W log_sum = math::log(sum);
  for (std::int64_t i = 0; i < rows.extent; ++i)
    rows.out[begin + i * inner] = narrowed<T>(rows.logarithm ? read(i) - largest - log_sum
                                                             : math::exp(read(i) - largest) / sum);
}

template <typename T>
void launch_rows(const Rows<T>& rows, std::int64_t count, cudaStream_t stream) {
  const std::int64_t warps = (rows.extent + 4 * warp_lanes - 1) / (4 * warp_lanes);
  const auto threads = std::min<std::int64_t>(warps * warp_lanes, row_threads);
  launch(stream,
         {.grid = dim3(static_cast<unsigned>(count)),
          .block = dim3(static_cast<unsigned>(threads)),
          .most_threads = row_threads},
         softmax_rows<T>, rows);
}

template <typename T>
class Softmax final : public Kernel {
 public:
  Softmax(const KernelRequest& request, bool logarithm)
      : extents_(extents_around_axis(request, request.inputs[0].shape, -1)),
        logarithm_(logarithm) {}

  void run(const KernelIo& io) override {
    if (extents_.rows() == 0 || extents_.extent == 0) return;
    const Rows<T> rows{io.inputs[0].as<const T>(),
                       io.outputs[0].as<T>(),
                       extents_.extent,
                       1,
                       {},
                       logarithm_,
                       false};
    if (extents_.inner == 1)
      launch_rows(rows, extents_.outer, stream_of(io));
    else
      launch(stream_of(io), a_thread_each(extents_.rows(), 128), softmax_columns<T>, rows,
             extents_.outer, extents_.inner);
  }

 private:
  AxisExtents extents_;
  bool logarithm_;
};

template <typename T>
class MaskedSoftmax final : public Kernel {
 public:
  explicit MaskedSoftmax(const KernelRequest& request)
      : extents_(extents_around(request.inputs[0].shape, request.inputs[0].shape.size() - 1)),
        scale_(request.node.float_attribute("scale", 1)),
        nan_to_zero_(request.node.int_attribute("nan_to_zero", 0) != 0) {
    if (is_given(request.inputs, 1)) set_mask(request);
  }

  void run(const KernelIo& io) override {
    if (extents_.rows() == 0 || extents_.extent == 0) return;
    Rows<T> rows{io.inputs[0].as<const T>(),
                 io.outputs[0].as<T>(),
                 extents_.extent,
                 static_cast<Widened<T>>(scale_),
                 mask_,
                 false,
                 nan_to_zero_};
    if (has_mask_ && io.inputs[1].type == DataType::boolean)
      rows.mask.chosen = io.inputs[1].as<const std::uint8_t>();
    else if (has_mask_)
      rows.mask.added = io.inputs[1].as<const T>();
    launch_rows(rows, extents_.outer, stream_of(io));
  }

 private:
  void set_mask(const KernelRequest& request) {
    const auto layout = mask_layout(request.inputs);
    if (!layout)
      fail("node '{}': {} of {} under a mask of {} of {} has no CUDA kernel", request.node.name,
           graph::to_string(request.inputs[0].shape), name_of(request.inputs[0].type),
           graph::to_string(request.inputs[1].shape), name_of(request.inputs[1].type));
    has_mask_ = true;
    mask_.fill = static_cast<Widened<T>>(
        request.node.float_attribute("fill", -std::numeric_limits<float>::infinity()));
    mask_.column_stride = layout->column_stride;
    std::copy_backward(layout->extents.begin(), layout->extents.end(), std::end(mask_.extents));
    std::copy_backward(layout->strides.begin(), layout->strides.end(), std::end(mask_.strides));
  }

  AxisExtents extents_;
  float scale_;
  bool nan_to_zero_;
  bool has_mask_ = false;
  Mask<T> mask_;
};

template <template <typename> typename Of, typename... Arguments>
std::unique_ptr<Kernel> make(const KernelRequest& request, Arguments... arguments) {
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{}, [&]<typename T>(T) {
    return std::make_unique<Of<T>>(request, arguments...);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) {
  return make<Softmax>(request, false);
}
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make<Softmax>(request, true);
}
std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request) {
  return make<MaskedSoftmax>(request);
}

}  // namespace autopar::runtime::cuda
