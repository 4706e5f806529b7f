// ArgMax, ArgMin and Hardmax of long rows: a block a row, or several where rows are few.

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/row_parts.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/selection.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int row_threads = 256;

/// The better one of two values.
template <bool is_max>
struct Better {
  template <typename W>
  __device__ W operator()(W x, W y) const {
    return is_better<is_max>(x, y) ? x : y;
  }
};

/// The earlier, or the later, of two places; -1 is none.
struct PlaceAmongEquals {
  bool takes_last;

  __device__ std::int64_t operator()(std::int64_t x, std::int64_t y) const {
    if (x < 0 || y < 0) return x < 0 ? y : x;
    return (x < y) == takes_last ? y : x;
  }
};

template <typename W>
struct Best {
  W value;
  std::int64_t place;  ///< in its row; -1: none
};

/// Elements `begin` to `end`, not none, of what `candidate` tells in the order of their places.
/// Every thread of the block gets the result.
template <bool is_max, typename W, typename Candidate>
__device__ Best<W> best_of(const Candidate& candidate, std::int64_t begin, std::int64_t end,
                           bool takes_last) {
  const W first = candidate(begin).value;
  Best<W> best{first, -1};
#pragma unroll 4  // so that several loads are on their way
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const Best<W> next = candidate(i);
    const bool is_taken = best.place < 0 || is_better<is_max>(next.value, best.value) ||
                          (takes_last && is_same(next.value, best.value));
    if (is_taken) best = next;
  }
  const W value = reduce_block(best.value, first, Better<is_max>{});
  const std::int64_t place = is_same(best.value, value) ? best.place : -1;
  return {value, reduce_block(place, std::int64_t{-1}, PlaceAmongEquals{takes_last})};
}

/// The elements of a row.
template <typename T>
struct OfRow {
  using Wide = ShuffledNumber<T>;
  const T* in;
  std::int64_t stride;

  __device__ Best<Wide> operator()(std::int64_t i) const {
    return {static_cast<Wide>(widened(in[i * stride])), i};
  }
};

/// The best ones of a row's parts.
template <typename W>
struct OfParts {
  const Best<W>* parts;

  __device__ Best<W> operator()(std::int64_t i) const { return parts[i]; }
};

template <typename T>
struct ArgOfRows {
  const T* in;                        ///< [outer, extent, inner]
  std::int64_t* out;                  ///< [outer, inner]
  Best<ShuffledNumber<T>>* of_parts;  ///< [rows, parts], where there are several
  AxisExtents rows;
  RowParts parts;
  bool takes_last;
};

template <typename T, bool is_max>
__global__ void __launch_bounds__(row_threads) choose_in_parts(ArgOfRows<T> of) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t begin = of.parts.begin(blockIdx.y);
  const auto best = best_of<is_max, ShuffledNumber<T>>(
      OfRow<T>{of.in + of.rows.row_offset(row), of.rows.inner}, begin,
      of.parts.end(blockIdx.y, of.rows.extent), of.takes_last);
  if (threadIdx.x != 0) return;
  if (of.parts.count == 1)
    of.out[row] = best.place;
  else
    of.of_parts[row * of.parts.count + blockIdx.y] = best;
}

template <typename W, bool is_max>
__global__ void __launch_bounds__(row_threads)
    choose_among_parts(const Best<W>* of_parts, unsigned count, std::int64_t* out,
                       bool takes_last) {
  const OfParts<W> parts{of_parts + static_cast<std::int64_t>(blockIdx.x) * count};
  const auto best = best_of<is_max, W>(parts, 0, count, takes_last);
  if (threadIdx.x == 0) out[blockIdx.x] = best.place;
}

template <typename T, bool is_max>
class Arg final : public Kernel {
 public:
  Arg(const AxisExtents& rows, bool takes_last)
      : of_{.in = nullptr,
            .out = nullptr,
            .of_parts = nullptr,
            .rows = rows,
            .parts = RowParts(rows.rows(), rows.extent),
            .takes_last = takes_last} {}

  std::int64_t scratch_bytes() const override {
    if (of_.parts.count == 1) return 0;
    return of_.rows.rows() * of_.parts.count *
           static_cast<std::int64_t>(sizeof(Best<ShuffledNumber<T>>));
  }

  void run(const KernelIo& io) override {
    const auto rows = static_cast<unsigned>(of_.rows.rows());
    if (rows == 0) return;
    ArgOfRows<T> of = of_;
    of.in = io.inputs[0].as<const T>();
    of.out = io.outputs[0].as<std::int64_t>();
    of.of_parts = reinterpret_cast<Best<ShuffledNumber<T>>*>(io.scratch);
    launch(stream_of(io), {dim3(rows, of.parts.count), dim3(row_threads)},
           choose_in_parts<T, is_max>, of);
    if (of.parts.count > 1)
      launch(stream_of(io), {dim3(rows), dim3(warp_lanes)},
             choose_among_parts<ShuffledNumber<T>, is_max>, of.of_parts, of.parts.count, of.out,
             of.takes_last);
  }

 private:
  ArgOfRows<T> of_;
};

template <typename T>
__global__ void __launch_bounds__(row_threads)
    hardmax_rows(const T* all, T* out, const __grid_constant__ AxisExtents rows) {
  const std::int64_t begin = rows.row_offset(blockIdx.x);
  const auto best =
      best_of<true, ShuffledNumber<T>>(OfRow<T>{all + begin, rows.inner}, 0, rows.extent, false);
  for (std::int64_t i = threadIdx.x; i < rows.extent; i += blockDim.x)
    out[begin + i * rows.inner] = narrowed<T>(i == best.place ? 1.0F : 0.0F);
}

template <typename T>
class Hardmax final : public Kernel {
 public:
  explicit Hardmax(const AxisExtents& rows) : rows_(rows) {}

  void run(const KernelIo& io) override {
    if (rows_.rows() == 0) return;
    launch(stream_of(io), {dim3(static_cast<unsigned>(rows_.rows())), dim3(row_threads)},
           hardmax_rows<T>, io.inputs[0].as<const T>(), io.outputs[0].as<T>(), rows_);
  }

 private:
  AxisExtents rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_arg_by_blocks(const KernelRequest& request, const AxisExtents& rows,
                                           bool is_max) {
  if (!suits_blocks(rows)) return nullptr;
  const bool takes_last = request.node.int_attribute("select_last_index", 0) != 0;
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{},
                         [&]<typename T>(T) -> std::unique_ptr<Kernel> {
                           if (is_max) return std::make_unique<Arg<T, true>>(rows, takes_last);
                           return std::make_unique<Arg<T, false>>(rows, takes_last);
                         });
}

std::unique_ptr<Kernel> make_hardmax_by_blocks(const KernelRequest& request,
                                               const AxisExtents& rows) {
  if (!suits_blocks(rows)) return nullptr;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{},
                         [&]<typename T>(T) { return std::make_unique<Hardmax<T>>(rows); });
}

}  // namespace autopar::runtime::cuda
