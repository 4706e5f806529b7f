#pragma once

#include <limits>

#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/cuda/block_reduce.h"

/// What rows of Attention's scores are, and what hides keys from them, for the kernels that keep
/// scores in registers. Heads that share keys and values are rows of one matrix, a query's heads
/// one behind the other.
namespace autopar::runtime::cuda {

inline constexpr float log2_e = 1.44269504F;
inline constexpr float infinity = std::numeric_limits<float>::infinity();

template <typename T>
struct RowArguments : AttentionData<T> {
  int key_heads;
  int heads_a_key_head;
  int rows;  ///< of a key head: its heads' queries
  int keys;
  int depth;
  int value_depth;
  const std::int64_t* lengths;  ///< [batches], the keys that are valid; may be null
  float scale;                  ///< of scores, times log2(e)
  bool mask_in_pairs;  ///< two neighbouring elements of the mask lie in a word of their own
  int row_tiles;
  int splits;         ///< blocks that share a matrix's keys
  int tiles_a_split;  ///< of keys
  int parts_a_row;    ///< that splits, and warps that share keys, find of a row
  float* parts;       ///< PartPlaces; null where there is one of a row

  __device__ int query_of(int row) const { return row / heads_a_key_head; }
  __device__ std::int64_t head_of(std::int64_t key_head, int row) const {
    return key_head * heads_a_key_head + row % heads_a_key_head;
  }
  /// The keys that the row's query may see, as far as its position tells.
  __device__ VisibleKeys visible(std::int64_t batch, int row) const {
    const AttentionProblem& p = this->problem;
    std::int64_t length = lengths == nullptr ? keys : lengths[batch];
    length = length < 0 ? 0 : (length > keys ? keys : length);
    const std::int64_t first = lengths == nullptr ? p.first_position : length - p.queries;
    if (this->mask_kind != MaskKind::none && p.mask_keys < length) length = p.mask_keys;
    return visible_keys(p.causal, p.left_window, p.right_window, first + query_of(row), length);
  }
};

__device__ __forceinline__ float exp2_of(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// What is added to a score, in units of log2(e). What is finite stays so: of scores that all have
/// the lowest number added, none is hidden.
__device__ __forceinline__ float in_log2(float added) {
  constexpr float most = std::numeric_limits<float>::max();
  return std::isinf(added) ? added : fminf(fmaxf(added * log2_e, -most), most);
}

/// Calls `work` with a pointer to elements of the mask's type, where there is a mask.
template <typename T, typename Work>
__device__ __forceinline__ void with_mask(const RowArguments<T>& of, Work work) {
  switch (of.mask_kind) {
    case MaskKind::boolean:
      return work(static_cast<const std::uint8_t*>(of.mask));
    case MaskKind::float32:
      return work(static_cast<const float*>(of.mask));
    case MaskKind::same:
      return work(static_cast<const T*>(of.mask));
    default:
      return;
  }
}

template <typename T, typename E>
__device__ __forceinline__ float masked(const RowArguments<T>& of, E element, float score) {
  if constexpr (std::is_same_v<E, std::uint8_t>)
    return element != 0 ? score : in_log2(of.problem.fill);
  else
    return score + in_log2(widened(element));
}

/// The score in units of log2(e), of the product of a query and a key.
template <typename T>
__device__ __forceinline__ float scaled(const RowArguments<T>& of, float product) {
  const float cap = of.problem.softcap * log2_e;
  const float score = product * of.scale;
  return cap > 0.0F ? cap * tanhf(score / cap) : score;
}

/// The score, scaled, of a row and a key under all that may hide the key.
template <typename T>
__device__ __forceinline__ float seen_score(const RowArguments<T>& of, std::int64_t batch,
                                            std::int64_t key_head, int row, int key, float score) {
  const VisibleKeys visible = of.visible(batch, row);
  if (key < visible.begin || key >= visible.end) return -infinity;
  with_mask(of, [&](const auto* mask) {
    const AttentionProblem::Layout& layout = of.problem.mask;
    score = masked(
        of,
        mask[layout.at(batch, of.head_of(key_head, row), of.query_of(row)) + key * layout.column],
        score);
  });
  return score;
}

/// Over the four lanes that share a row.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}

/// Computes what a row gets once more, by all lanes of a warp, from the values of those keys alone
/// that have a share. The tensor core multiplies those of all keys of a tile, and 0 times NaN or
/// infinity is NaN.
template <typename T>
__device__ __noinline__ void attend_without_hidden(const RowArguments<T>& of, std::int64_t batch,
                                                   std::int64_t key_head, int row, float largest,
                                                   float total) {
  constexpr int most_columns_a_lane = 256 / warp_lanes;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const std::int64_t head = of.head_of(key_head, row);
  const T* const q = of.q + of.problem.q.at(batch, head, of.query_of(row));
  const T* const k = of.k + of.problem.k.at(batch, key_head, 0);
  const T* const v = of.v + of.problem.v.at(batch, key_head, 0);
  float mixed[most_columns_a_lane] = {};
  for (int first = 0; first < of.keys; first += warp_lanes) {
    const int key = first + lane;
    float score = 0;
    for (int d = 0; d < of.depth && key < of.keys; ++d)
      score += widened(q[d]) * widened(k[key * of.problem.k.row + d]);
    const float share =
        exp2_of(seen_score(of, batch, key_head, row, key, scaled(of, score)) - largest);
    for (int other = 0; other < warp_lanes; ++other) {
      const float share_of_key = __shfl_sync(all_lanes, share, other);
      if (share_of_key == 0.0F) continue;
      const T* const values = v + (first + other) * of.problem.v.row;
#pragma unroll
      for (int i = 0; i < most_columns_a_lane; ++i)
        if (const int column = i * warp_lanes + lane; column < of.value_depth)
          mixed[i] += share_of_key * widened(values[column]);
    }
  }
  T* const out = of.out + of.problem.out.at(batch, head, of.query_of(row));
  __syncwarp();  // other lanes have written there
#pragma unroll
  for (int i = 0; i < most_columns_a_lane; ++i)
    if (const int column = i * warp_lanes + lane; column < of.value_depth)
      out[column] = narrowed<T>(mixed[i] / total);
}

/// Whether a row comes out as zeros, whatever it would hold.
template <typename T>
__device__ __forceinline__ bool is_nothing(const RowArguments<T>& of, float total) {
  return (of.problem.nan_to_zero && !(total > 0.0F)) || (of.problem.none_is_zero && total == 0.0F);
}

}  // namespace autopar::runtime::cuda
