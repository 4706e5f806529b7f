// Reductions over several dimensions: a thread an output where there are many outputs and their
// inputs lie side by side, else a block an output. Floats of all widths add in double.

#include <algorithm>
#include <utility>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int max_dimensions = 6;

/// Extents and strides of some merged dimensions of the input.
struct Space {
  int dimensions = 0;
  std::int64_t extents[max_dimensions] = {};
  std::int64_t strides[max_dimensions] = {};

  __device__ std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (int d = dimensions - 1; d >= 0; --d) {
      result += index % extents[d] * strides[d];
      index /= extents[d];
    }
    return result;
  }
};

template <typename T>
struct Reduction {
  const T* in;
  T* out;
  Space kept;
  Space reduced;
  std::int64_t rows;
  std::int64_t row_elements;
};

/// A thread's part of a row: every `step`th element from `first` on.
template <typename T, typename Operation>
__device__ Accumulator<T> reduce_part(const Reduction<T>& reduction, const T* in,
                                      std::int64_t first, std::int64_t step) {
  auto result = Operation::template start<Accumulator<T>>();
  const auto take = [&](std::int64_t offset) {
    result = Operation::take(result, accumulated(in[offset]));
  };
  if (reduction.reduced.dimensions == 1) {
    const std::int64_t stride = reduction.reduced.strides[0];
#pragma unroll 4  // so that several loads are on their way
    for (std::int64_t i = first; i < reduction.row_elements; i += step) take(i * stride);
  } else {
    for (std::int64_t i = first; i < reduction.row_elements; i += step)
      take(reduction.reduced.offset(i));
  }
  return result;
}

template <typename T, typename Operation>
__global__ void reduce_a_thread_each(Reduction<T> reduction) {
  const std::int64_t row = global_thread();
  if (row >= reduction.rows) return;
  const T* in = reduction.in + reduction.kept.offset(row);
  const auto result = reduce_part<T, Operation>(reduction, in, 0, 1);
  reduction.out[row] = narrowed<T>(Operation::finish(result, reduction.row_elements));
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
  const T* in = reduction.in + reduction.kept.offset(row);
  auto result = reduce_part<T, Operation>(reduction, in, threadIdx.x, blockDim.x);
  result = reduce_block(result, Operation::template start<Accumulator<T>>(), Join<Operation>{});
  if (threadIdx.x == 0)
    reduction.out[row] = narrowed<T>(Operation::finish(result, reduction.row_elements));
}

Space space_of(const KernelRequest& request, const Shape& extents,
               const std::vector<std::int64_t>& strides) {
  if (extents.size() > max_dimensions)
    fail("node '{}': {} over dimensions that alternate {} times has no CUDA kernel",
         request.node.name, request.node.op_type, extents.size());
  Space space;
  space.dimensions = static_cast<int>(extents.size());
  std::ranges::copy(extents, space.extents);
  std::ranges::copy(strides, space.strides);
  return space;
}

template <typename T, typename Operation>
class Reduce final : public Kernel {
 public:
  Reduce(const KernelRequest& request, const ReducedDimensions& dimensions) {
    reduction_.kept = space_of(request, dimensions.kept_extents, dimensions.kept_strides);
    reduction_.reduced = space_of(request, dimensions.reduced_extents, dimensions.reduced_strides);
    reduction_.rows = dimensions.rows();
    reduction_.row_elements = dimensions.row_elements();
    const bool is_side_by_side =
        !dimensions.kept_strides.empty() && dimensions.kept_strides.back() == 1;
    has_many_rows_ = (is_side_by_side && reduction_.rows >= 4096) || reduction_.row_elements <= 32;
  }

  void run(const KernelIo& io) override {
    if (reduction_.rows == 0) return;
    Reduction<T> reduction = reduction_;
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
           {.grid = dim3(static_cast<unsigned>(reduction.rows)),
            .block = dim3(static_cast<unsigned>(threads)),
            .most_threads = row_threads},
           reduce_a_block_each<T, Operation>, reduction);
  }

 private:
  Reduction<T> reduction_{};
  bool has_many_rows_ = false;
};

template <typename Operation>
std::unique_ptr<Kernel> make(const KernelRequest& request, const ReducedDimensions& dimensions) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(stored_type(type), Reducible{}, [&]<typename T>(T) {
        kernel = std::make_unique<Reduce<T, Operation>>(request, dimensions);
      }))
    fail_type(request, type);
  return kernel;
}

template <typename Operation>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return make<Operation>(request, ReducedDimensions(request));
}

}  // namespace

std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request) {
  return make<reductions::Sum>(request);
}
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request) {
  return make<reductions::Mean>(request);
}
std::unique_ptr<Kernel> make_reduce_prod(const KernelRequest& request) {
  return make<reductions::Product>(request);
}
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request) {
  return make<reductions::Max>(request);
}
std::unique_ptr<Kernel> make_reduce_min(const KernelRequest& request) {
  return make<reductions::Min>(request);
}
std::unique_ptr<Kernel> make_reduce_sum_square(const KernelRequest& request) {
  return make<reductions::SumSquare>(request);
}
std::unique_ptr<Kernel> make_reduce_log_sum(const KernelRequest& request) {
  return make<reductions::LogSum>(request);
}
std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request) {
  return make<reductions::L1>(request);
}
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request) {
  return make<reductions::L2>(request);
}
std::unique_ptr<Kernel> make_global_average_pool(const KernelRequest& request) {
  return make<reductions::Mean>(request, ReducedDimensions::of_images(request));
}
std::unique_ptr<Kernel> make_global_max_pool(const KernelRequest& request) {
  return make<reductions::Max>(request, ReducedDimensions::of_images(request));
}

}  // namespace autopar::runtime::cuda
