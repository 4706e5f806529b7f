// Softmax, LogSoftmax and MaskedSoftmax. Along the innermost dimension a block takes a row, whose
// elements stay in registers; along another a thread takes a row, since its neighbours' rows lie
// beside it. In float, or double for double.

#include <algorithm>
#include <limits>

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
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

std::unique_ptr<Kernel> make(const KernelRequest& request, bool logarithm) {
  const AxisExtents extents = extents_around_axis(request, request.inputs.at(0).shape, -1);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_kernel([=](const KernelIo& io) {
      if (extents.rows() == 0 || extents.extent == 0) return;
      const Rows<T> rows{io.inputs[0].as<const T>(),
                         io.outputs[0].as<T>(),
                         extents.extent,
                         1,
                         {},
                         logarithm,
                         false};
      if (extents.inner == 1)
        launch_rows(rows, extents.outer, stream_of(io));
      else
        launch(stream_of(io), a_thread_each(extents.rows(), 128), softmax_columns<T>, rows,
               extents.outer, extents.inner);
    });
  });
}

/// Input 1, without its data, if there is one.
template <typename T>
Mask<T> mask_of(const KernelRequest& request) {
  Mask<T> mask;
  if (!is_given(request.inputs, 1)) return mask;
  const auto layout = mask_layout(request.inputs);
  if (!layout)
    fail("node '{}': {} of {} under a mask of {} of {} has no CUDA kernel", request.node.name,
         graph::to_string(request.inputs[0].shape), name_of(request.inputs[0].type),
         graph::to_string(request.inputs[1].shape), name_of(request.inputs[1].type));
  mask.fill = static_cast<Widened<T>>(
      request.node.float_attribute("fill", -std::numeric_limits<float>::infinity()));
  mask.column_stride = layout->column_stride;
  std::copy_backward(layout->extents.begin(), layout->extents.end(), std::end(mask.extents));
  std::copy_backward(layout->strides.begin(), layout->strides.end(), std::end(mask.strides));
  return mask;
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request) { return make(request, false); }
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request) {
  return make(request, true);
}

std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  const float scale = request.node.float_attribute("scale", 1);
  const bool nan_to_zero = request.node.int_attribute("nan_to_zero", 0) != 0;
  return kernel_for_type(request, in.type, AllFloats{}, [&]<typename T>(T) {
    const AxisExtents extents = extents_around(in.shape, in.shape.size() - 1);
    return make_kernel([=, mask = mask_of<T>(request)](const KernelIo& io) {
      if (extents.rows() == 0 || extents.extent == 0) return;
      Rows<T> rows{io.inputs[0].as<const T>(),
                   io.outputs[0].as<T>(),
                   extents.extent,
                   static_cast<Widened<T>>(scale),
                   mask,
                   false,
                   nan_to_zero};
      if (is_given(io.inputs, 1) && io.inputs[1].type == DataType::boolean)
        rows.mask.chosen = io.inputs[1].as<const std::uint8_t>();
      else
        rows.mask.added = optional_data<const T>(io.inputs, 1);
      launch_rows(rows, extents.outer, stream_of(io));
    });
  });
}

}  // namespace autopar::runtime::cuda
