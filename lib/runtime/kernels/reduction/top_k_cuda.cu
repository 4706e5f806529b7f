// TopK of long rows: a block a row. The k-th element is found digit by digit, from counts of the
// digits (radix select: Alabi et al., Fast k-Selection Algorithms for GPUs, 2012); what comes
// before it is sorted by a bitonic network (Batcher, 1968).

#include <bit>
#include <limits>
#include <type_traits>

#include "runtime/kernels/cuda/block_scan.h"
#include "runtime/kernels/cuda/row_parts.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int row_threads = 512;
constexpr int digit_bits = 8;
constexpr int digits = 1 << digit_bits;
constexpr std::int64_t most_sorted = 2048;  ///< which leaves shared memory for two blocks and more

/// As many bits as a number is compared in.
template <typename T>
using Bits = std::conditional_t<sizeof(ShuffledNumber<T>) == 8, std::uint64_t, std::uint32_t>;

/// Bits that are in the order of the numbers: NaN after all others, and both zeros the same.
template <typename T>
__device__ Bits<T> ordered_bits(T element) {
  using B = Bits<T>;
  constexpr B sign = B{1} << (8 * sizeof(B) - 1);
  const auto x = static_cast<ShuffledNumber<T>>(widened(element));
  if constexpr (std::is_floating_point_v<decltype(x)>) {
    if (x != x) return ~B{0};
    if (x == 0) return sign;
    const auto bits = std::bit_cast<B>(x);
    return (bits & sign) != 0 ? ~bits : bits | sign;
  } else {
    return std::is_signed_v<decltype(x)> ? static_cast<B>(x) ^ sign : static_cast<B>(x);
  }
}

template <typename T>
struct TopKOfRows {
  const T* in;            ///< [outer, extent, inner]
  T* values;              ///< [outer, k, inner]
  std::int64_t* indices;  ///< as values
  AxisExtents rows;
  int k;
  int sorted;  ///< k, up to a power of two
  bool takes_largest;

  /// The element's bits, in whose order larger ones come first.
  __device__ Bits<T> priority(const T* row, std::int64_t i) const {
    const Bits<T> bits = ordered_bits(row[i * rows.inner]);
    return takes_largest ? bits : ~bits;
  }
};

/// The priority of a row's k-th element, and how many elements of that priority are among the k.
template <typename B>
struct Threshold {
  B priority;
  unsigned of_equals;
};

/// All threads of the block get it.
template <typename T>
__device__ Threshold<Bits<T>> find_threshold(const TopKOfRows<T>& of, const T* row,
                                             BlockScan<unsigned>& scan) {
  using B = Bits<T>;
  __shared__ unsigned counts[digits];
  __shared__ unsigned found_digit;
  __shared__ unsigned still_wanted;
  B known = 0;       // the digits found so far
  B known_bits = 0;  // their bits
  auto wanted = static_cast<unsigned>(of.k);
  for (int shift = 8 * static_cast<int>(sizeof(B)) - digit_bits; shift >= 0; shift -= digit_bits) {
    for (unsigned d = threadIdx.x; d < digits; d += blockDim.x) counts[d] = 0;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < of.rows.extent; i += blockDim.x) {
      const B priority = of.priority(row, i);
      if ((priority & known_bits) == known)
        atomicAdd(&counts[static_cast<unsigned>(priority >> shift) % digits], 1U);
    }
    __syncthreads();
    // A thread a digit, the largest first.
    const unsigned digit = digits - 1 - threadIdx.x;
    const unsigned count = threadIdx.x < digits ? counts[digit] : 0;
    const unsigned before = scan.scan(count, 0U, true, Plus{});
    if (before < wanted && wanted <= before + count) {
      found_digit = digit;
      still_wanted = wanted - before;
    }
    __syncthreads();
    known |= static_cast<B>(found_digit) << shift;
    known_bits |= static_cast<B>(digits - 1) << shift;
    wanted = still_wanted;
  }
  return {known, wanted};
}

/// Priorities and places of elements, in shared memory.
template <typename B>
struct Entries {
  B* priorities;
  std::uint32_t* places;

  __device__ bool is_before(int x, int y) const {
    return priorities[x] != priorities[y] ? priorities[x] > priorities[y] : places[x] < places[y];
  }
  __device__ void swap(int x, int y) const {
    const B priority = priorities[x];
    const std::uint32_t place = places[x];
    priorities[x] = priorities[y];
    places[x] = places[y];
    priorities[y] = priority;
    places[y] = place;
  }
};

/// The k first elements, in any order: all before the threshold, and of its equals the first ones.
template <typename T>
__device__ void collect(const TopKOfRows<T>& of, const T* row, Threshold<Bits<T>> threshold,
                        const Entries<Bits<T>>& entries, BlockScan<unsigned>& scan) {
  constexpr unsigned one_equal = 1U << 16;  // counts of both kinds in one number
  const unsigned of_others = static_cast<unsigned>(of.k) - threshold.of_equals;
  unsigned others = 0;
  unsigned equals = 0;
  for (std::int64_t part = 0; part < of.rows.extent; part += blockDim.x) {
    const std::int64_t i = part + threadIdx.x;
    const Bits<T> priority = i < of.rows.extent ? of.priority(row, i) : 0;
    const bool is_other = i < of.rows.extent && priority > threshold.priority;
    const bool is_equal = i < of.rows.extent && priority == threshold.priority;
    if (__syncthreads_or(is_other || is_equal) == 0) continue;
    const unsigned mine = is_other ? 1 : is_equal ? one_equal : 0;
    const unsigned before = scan.scan(mine, 0U, true, Plus{});
    const unsigned equal = equals + before / one_equal;
    if (is_other || (is_equal && equal < threshold.of_equals)) {
      const unsigned slot = is_other ? others + before % one_equal : of_others + equal;
      entries.priorities[slot] = priority;
      entries.places[slot] = static_cast<std::uint32_t>(i);
    }
    const unsigned all = scan.total(0U, Plus{});
    others += all % one_equal;
    equals += all / one_equal;
    __syncthreads();
  }
  // What comes after all elements: their places are lower.
  for (int slot = of.k + static_cast<int>(threadIdx.x); slot < of.sorted;
       slot += static_cast<int>(blockDim.x)) {
    entries.priorities[slot] = 0;
    entries.places[slot] = ~0U;
  }
}

template <typename B>
__device__ void sort(const Entries<B>& entries, int count) {
  for (int size = 2; size <= count; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < count / 2;
           pair += static_cast<int>(blockDim.x)) {
        const int left = 2 * pair - (pair & (distance - 1));
        const int right = left + distance;
        const bool is_forwards = (left & size) == 0;
        if (entries.is_before(right, left) == is_forwards) entries.swap(left, right);
      }
    }
  __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(row_threads)
    choose_first(const __grid_constant__ TopKOfRows<T> of) {
  __shared__ BlockScan<unsigned> scan;
  auto* priorities = reinterpret_cast<Bits<T>*>(dynamic_shared());
  const Entries<Bits<T>> entries{priorities,
                                 reinterpret_cast<std::uint32_t*>(priorities + of.sorted)};
  const T* row = of.in + of.rows.row_offset(blockIdx.x);
  collect(of, row, find_threshold(of, row, scan), entries, scan);
  sort(entries, of.sorted);
  const std::int64_t begin = of.rows.row_offset(blockIdx.x, of.k);
  for (int i = static_cast<int>(threadIdx.x); i < of.k; i += static_cast<int>(blockDim.x)) {
    const std::int64_t at = begin + i * of.rows.inner;
    of.values[at] = row[entries.places[i] * of.rows.inner];
    of.indices[at] = entries.places[i];
  }
}

template <typename T>
class TopK final : public Kernel {
 public:
  TopK(const AxisExtents& rows, std::int64_t k, bool takes_largest)
      : of_{.in = nullptr,
            .values = nullptr,
            .indices = nullptr,
            .rows = rows,
            .k = static_cast<int>(k),
            .sorted = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(k))),
            .takes_largest = takes_largest} {}

  void run(const KernelIo& io) override {
    if (of_.rows.rows() == 0 || of_.k == 0) return;
    TopKOfRows<T> of = of_;
    of.in = io.inputs[0].as<const T>();
    of.values = io.outputs[0].as<T>();
    of.indices = io.outputs[1].as<std::int64_t>();
    launch(stream_of(io),
           {.grid = dim3(static_cast<unsigned>(of.rows.rows())),
            .block = dim3(row_threads),
            .shared_bytes = of.sorted * (sizeof(Bits<T>) + sizeof(std::uint32_t)),
            .most_threads = row_threads},
           choose_first<T>, of);
  }

 private:
  TopKOfRows<T> of_;
};

}  // namespace

std::unique_ptr<Kernel> make_top_k_by_blocks(const KernelRequest& request, const AxisExtents& rows,
                                             std::int64_t k, bool takes_largest) {
  const bool has_places = rows.extent < std::numeric_limits<std::uint32_t>::max();
  if (!suits_blocks(rows) || k > most_sorted || !has_places) return nullptr;
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{}, [&]<typename T>(T) {
    return std::make_unique<TopK<T>>(rows, k, takes_largest);
  });
}

}  // namespace autopar::runtime::cuda
