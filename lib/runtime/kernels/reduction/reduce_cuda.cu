// Reductions over several dimensions: a thread an output where there are many outputs and their
// inputs lie side by side, else a block an output, or several where outputs are few and made of
// many elements. Floats of all widths add in double.

#include <algorithm>

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/row_parts.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cuda {
namespace {

template <typename T>
struct Reduction {
  const T* in;
  T* out;
  ReducedSpace kept;
  ReducedSpace reduced;
  std::int64_t rows;
  std::int64_t row_elements;
  RowParts parts;
  Accumulator<T>* of_parts;  ///< [rows, parts], where there are several
};

/// Every `step`th element of a row from `first` on, up to `end`.
template <typename T, typename Operation>
__device__ Accumulator<T> reduce_elements(const Reduction<T>& reduction, const T* in,
                                          std::int64_t first, std::int64_t end, std::int64_t step) {
  auto result = Operation::template start<T>;
  const auto take = [&](std::int64_t offset) {
    result = Operation::take(result, accumulated(in[offset]));
  };
  if (reduction.reduced.dimensions == 1) {
    const std::int64_t stride = reduction.reduced.strides[0];
#pragma unroll 4  // so that several loads are on their way
    for (std::int64_t i = first; i < end; i += step) take(i * stride);
  } else {
    for (std::int64_t i = first; i < end; i += step) take(reduction.reduced.offset(i));
  }
  return result;
}

template <typename T, typename Operation>
__device__ void finish_row(const Reduction<T>& reduction, std::int64_t row, Accumulator<T> result) {
  reduction.out[row] = narrowed<T>(Operation::finish(result, reduction.row_elements));
}

template <typename T, typename Operation>
__global__ void reduce_a_thread_each(Reduction<T> reduction) {
  const std::int64_t row = global_thread();
  if (row >= reduction.rows) return;
  const T* in = reduction.in + reduction.kept.offset(row);
  const auto result = reduce_elements<T, Operation>(reduction, in, 0, reduction.row_elements, 1);
  finish_row<T, Operation>(reduction, row, result);
}

/// Two threads' results become one: taking one in as an element would square it, say.
template <typename Operation>
struct Join {
  template <typename W>
  __device__ W operator()(W x, W y) const {
    return Operation::join(x, y);
  }
};

constexpr int row_threads = 512;

template <typename T, typename Operation>
__global__ void __launch_bounds__(row_threads) reduce_a_block_each(Reduction<T> reduction) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t part = blockIdx.y;
  auto result =
      reduce_elements<T, Operation>(reduction, reduction.in + reduction.kept.offset(row),
                                    reduction.parts.begin(part) + threadIdx.x,
                                    reduction.parts.end(part, reduction.row_elements), blockDim.x);
  result = reduce_block(result, Operation::template start<T>, Join<Operation>{});
  if (threadIdx.x != 0) return;
  if (reduction.parts.count == 1)
    finish_row<T, Operation>(reduction, row, result);
  else
    reduction.of_parts[row * reduction.parts.count + part] = result;
}

/// A warp a row.
template <typename T, typename Operation>
__global__ void join_parts(Reduction<T> reduction) {
  const Accumulator<T>* parts = reduction.of_parts + blockIdx.x * reduction.parts.count;
  auto result = Operation::template start<T>;
  for (unsigned part = threadIdx.x; part < reduction.parts.count; part += warp_lanes)
    result = Operation::join(result, parts[part]);
  result = reduce_warp(result, Join<Operation>{});
  if (threadIdx.x == 0) finish_row<T, Operation>(reduction, blockIdx.x, result);
}

template <typename T, typename Operation>
class Reduce final : public Kernel {
 public:
  Reduce(const KernelRequest& request, const ReducedDimensions& dimensions)
      : reduction_{.in = nullptr,
                   .out = nullptr,
                   .kept = {request, dimensions.kept},
                   .reduced = {request, dimensions.reduced},
                   .rows = dimensions.rows(),
                   .row_elements = dimensions.row_elements(),
                   .parts = RowParts(dimensions.rows(), dimensions.row_elements()),
                   .of_parts = nullptr} {
    const auto& strides = dimensions.kept.strides;
    const bool is_side_by_side = !strides.empty() && strides.back() == 1;
    has_many_rows_ = (is_side_by_side && reduction_.rows >= 4096) || reduction_.row_elements <= 32;
  }

  std::int64_t scratch_bytes() const override {
    if (has_many_rows_ || reduction_.parts.count == 1) return 0;
    return reduction_.rows * reduction_.parts.count *
           static_cast<std::int64_t>(sizeof(Accumulator<T>));
  }

  void run(const KernelIo& io) override {
    if (reduction_.rows == 0) return;
    Reduction<T> reduction = reduction_;
    reduction.of_parts = reinterpret_cast<Accumulator<T>*>(io.scratch);
    reduction.in = io.inputs[0].as<const T>();
    reduction.out = io.outputs[0].as<T>();
    if (has_many_rows_) {
      launch(stream_of(io), a_thread_each(reduction.rows), reduce_a_thread_each<T, Operation>,
             reduction);
      return;
    }
    const std::int64_t warps = (reduction.row_elements + 4 * warp_lanes - 1) / (4 * warp_lanes);
    const auto threads = std::clamp<std::int64_t>(warps * warp_lanes, warp_lanes, row_threads);
    launch(stream_of(io),
           {.grid = dim3(static_cast<unsigned>(reduction.rows), reduction.parts.count),
            .block = dim3(static_cast<unsigned>(threads)),
            .most_threads = row_threads},
           reduce_a_block_each<T, Operation>, reduction);
    if (reduction.parts.count > 1)
      launch(stream_of(io), {dim3(static_cast<unsigned>(reduction.rows)), dim3(warp_lanes)},
             join_parts<T, Operation>, reduction);
  }

 private:
  Reduction<T> reduction_;
  bool has_many_rows_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request,
                                       const ReducedDimensions& dimensions,
                                       AnyReduction operation) {
  const auto make = [&]<typename Operation>(Operation) {
    return kernel_for_type(
        request, stored_type(request.inputs.at(0).type), AllNumbers{},
        [&]<typename T>(T) { return std::make_unique<Reduce<T, Operation>>(request, dimensions); });
  };
  return std::visit(make, operation);
}

}  // namespace autopar::runtime::cuda
