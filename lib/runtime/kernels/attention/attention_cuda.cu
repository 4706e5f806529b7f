// Attention without its scores in memory, for half types: FlashAttention-2 (Dao, 2023). A block of
// four warps takes 64 queries of one head, 16 a warp, and walks over the keys tile by tile; while
// one tile is at work, the next is on its way to shared memory. Scores live in registers, as the
// tensor core lays them out, and so do each row's largest score and sum so far.

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/kernels/attention/attention_cache.h"
#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/attention/served.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/tensor_core.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int tile_queries = attention_tile_queries;
static_assert(tile_queries == 16 * warps);
constexpr float log2_e = 1.44269504F;

enum class MaskKind { none, boolean, float32, half };

template <typename T>
struct Arguments {
  const T* q;        ///< [batches, heads, queries, depth], by q_layout
  const T* k;        ///< [batches, heads / heads_a_key_head, keys, depth], by k_layout
  const T* v;        ///< [batches, heads / heads_a_key_head, keys, value_depth], by v_layout
  T* out;            ///< [batches, heads, queries, value_depth], by out_layout
  const void* mask;  ///< [batches, heads, queries, keys], by mask_layout; may be null
  MaskKind mask_kind;
  AttentionProblem::Layout q_layout;
  AttentionProblem::Layout k_layout;
  AttentionProblem::Layout v_layout;
  AttentionProblem::Layout out_layout;
  AttentionProblem::Layout mask_layout;
  int heads;
  int heads_a_key_head;
  int queries;
  int keys;
  int depth;
  int value_depth;
  int query_tiles;
  int first_position;
  float scale;  ///< of scores, times log2(e)
  float fill;
  bool causal;
  bool nan_to_zero;
  bool none_is_zero;
};

/// Keys a tile: registers and shared memory bound it.
template <int max_depth>
constexpr int tile_keys = max_depth <= 128 ? 64 : 32;

/// Rows in shared memory stand an odd number of 16 bytes apart, so that the eight rows of a matrix
/// lie in different banks.
template <int max_depth>
constexpr int row_stride = max_depth + 8;

template <int max_depth>
constexpr std::size_t shared_bytes =
    sizeof(std::uint16_t) * row_stride<max_depth>*(tile_queries + 4 * tile_keys<max_depth>);

/// Begins to copy `rows` rows of `depth` elements, zeros beyond `limit` rows and `depth`.
template <int max_depth, int rows, typename T>
__device__ __forceinline__ void fetch(T* shared, const T* from, std::int64_t stride, int limit,
                                      int depth) {
  constexpr int pack = 8;
  constexpr int packs = max_depth / pack;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += threads) {
    const int row = i / packs;
    const int column = i % packs * pack;
    const bool is_there = row < limit && column < depth;
    copy_async(shared + row * row_stride<max_depth> + column,
               is_there ? from + row * stride + column : from, is_there);
  }
}

/// What is added to a score, in units of log2(e). What is finite stays so: of scores that all have
/// the lowest number added, none is hidden.
__device__ __forceinline__ float in_log2(float added) {
  const float scaled = added * log2_e;
  return std::isinf(scaled) && !std::isinf(added)
             ? copysignf(std::numeric_limits<float>::max(), added)
             : scaled;
}

template <typename T>
__device__ __forceinline__ float masked(const Arguments<T>& of, std::int64_t at, float score) {
  switch (of.mask_kind) {
    case MaskKind::boolean:
      return static_cast<const std::uint8_t*>(of.mask)[at] != 0 ? score : in_log2(of.fill);
    case MaskKind::float32:
      return score + in_log2(static_cast<const float*>(of.mask)[at]);
    case MaskKind::half:
      return score + in_log2(widened(static_cast<const T*>(of.mask)[at]));
    default:
      return score;
  }
}

/// The score, scaled, of a query and a key under all that may hide the key.
template <typename T>
__device__ __forceinline__ float seen_score(const Arguments<T>& of, std::int64_t batch,
                                            std::int64_t head, int query, int key, float score) {
  const bool is_there = key < of.keys && query < of.queries;
  if (of.mask_kind != MaskKind::none && is_there)
    score = masked(of,
                   batch * of.mask_layout.batch + head * of.mask_layout.head +
                       query * of.mask_layout.row + key * of.mask_layout.column,
                   score);
  const bool is_hidden = key >= of.keys || (of.causal && key > query + of.first_position);
  return is_hidden ? -std::numeric_limits<float>::infinity() : score;
}

/// Over the four lanes that share a row.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

/// Computes what a query gets once more, by all lanes of a warp, from the values of those keys
/// alone that have a share. The tensor core multiplies those of all keys of a tile, and 0 times NaN
/// or infinity is NaN.
template <typename T>
__device__ __noinline__ void attend_without_hidden(const Arguments<T>& of, std::int64_t batch,
                                                   std::int64_t head, int query, float largest,
                                                   float total) {
  constexpr int lanes = 32;
  constexpr int most_columns_a_lane = 256 / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t key_head = head / of.heads_a_key_head;
  const T* const q =
      of.q + batch * of.q_layout.batch + head * of.q_layout.head + query * of.q_layout.row;
  const T* const k = of.k + batch * of.k_layout.batch + key_head * of.k_layout.head;
  const T* const v = of.v + batch * of.v_layout.batch + key_head * of.v_layout.head;
  float mixed[most_columns_a_lane] = {};
  for (int first = 0; first < of.keys; first += lanes) {
    const int key = first + lane;
    float score = 0;
    for (int d = 0; d < of.depth && key < of.keys; ++d)
      score += widened(q[d]) * widened(k[key * of.k_layout.row + d]);
    const float share = exp2f(seen_score(of, batch, head, query, key, score * of.scale) - largest);
    for (int other = 0; other < lanes; ++other) {
      const float share_of_key = __shfl_sync(0xffffffffU, share, other);
      if (share_of_key == 0.0F) continue;
      const T* const row = v + (first + other) * of.v_layout.row;
#pragma unroll
      for (int i = 0; i < most_columns_a_lane; ++i)
        if (const int column = i * lanes + lane; column < of.value_depth)
          mixed[i] += share_of_key * widened(row[column]);
    }
  }
  T* const out =
      of.out + batch * of.out_layout.batch + head * of.out_layout.head + query * of.out_layout.row;
  __syncwarp();  // other lanes have written there
#pragma unroll
  for (int i = 0; i < most_columns_a_lane; ++i)
    if (const int column = i * lanes + lane; column < of.value_depth)
      out[column] = narrowed<T>(mixed[i] / total);
}

template <typename T, int max_depth>
__global__ void __launch_bounds__(threads) attend(const __grid_constant__ Arguments<T> of) {
  constexpr int stride = row_stride<max_depth>;
  constexpr int keys_a_tile = tile_keys<max_depth>;
  constexpr int score_tiles = keys_a_tile / 8;
  constexpr int depth_steps = max_depth / 16;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  T* const queries = reinterpret_cast<T*>(dynamic_shared());
  T* const tiles = queries + tile_queries * stride;  // keys and values, twice
  const auto keys_of = [&](int tile) { return tiles + (tile % 2) * 2 * keys_a_tile * stride; };
  const auto values_of = [&](int tile) { return keys_of(tile) + keys_a_tile * stride; };

  // The last queries see most keys, so they begin.
  const int block = static_cast<int>(blockIdx.x);
  const int first_query = (of.query_tiles - 1 - block % of.query_tiles) * tile_queries;
  const std::int64_t head = block / of.query_tiles % of.heads;
  const std::int64_t batch = block / of.query_tiles / of.heads;
  const std::int64_t key_head = head / of.heads_a_key_head;
  const T* const k = of.k + batch * of.k_layout.batch + key_head * of.k_layout.head;
  const T* const v = of.v + batch * of.v_layout.batch + key_head * of.v_layout.head;
  const int seen = first_query + tile_queries + of.first_position;
  const int visible = !of.causal || seen > of.keys ? of.keys : (seen > 0 ? seen : 0);
  const int tile_count = (visible + keys_a_tile - 1) / keys_a_tile;

  const auto fetch_tile = [&](int tile) {
    const int first = tile * keys_a_tile;
    fetch<max_depth, keys_a_tile>(keys_of(tile), k + first * of.k_layout.row, of.k_layout.row,
                                  of.keys - first, of.depth);
    fetch<max_depth, keys_a_tile>(values_of(tile), v + first * of.v_layout.row, of.v_layout.row,
                                  of.keys - first, of.value_depth);
  };
  fetch<max_depth, tile_queries>(
      queries,
      of.q + batch * of.q_layout.batch + head * of.q_layout.head + first_query * of.q_layout.row,
      of.q_layout.row, of.queries - first_query, of.depth);
  if (tile_count > 0) fetch_tile(0);
  end_copy_batch();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int row_in_warp = lane / 4;  // and 8 more
  const int column_in_tile = lane % 4 * 2;
  float result[max_depth / 8][4] = {};
  float largest[2] = {-infinity, -infinity};
  float sum[2] = {};

  for (int tile = 0; tile < tile_count; ++tile) {
    if (tile + 1 < tile_count) fetch_tile(tile + 1);
    end_copy_batch();
    wait_for_copies<1>();
    __syncthreads();

    // Scores: queries times keys.
    float scores[score_tiles][4] = {};
#pragma unroll
    for (int step = 0; step < depth_steps; ++step) {
      std::uint32_t a[4];
      load_matrices<false>(a,
                           queries + (warp_row + lane % 16) * stride + step * 16 + lane / 16 * 8);
#pragma unroll
      for (int pair = 0; pair < score_tiles / 2; ++pair) {
        // Keys of two tiles of 8, both halves of the depth.
        std::uint32_t b[4];
        load_matrices<false>(b, keys_of(tile) + (pair * 16 + lane / 16 * 8 + lane % 8) * stride +
                                    step * 16 + lane / 8 % 2 * 8);
        multiply_add<T>(scores[2 * pair], a, {b[0], b[1]});
        multiply_add<T>(scores[2 * pair + 1], a, {b[2], b[3]});
      }
    }

    // Scale, masks, and the largest of each row.
    float tile_largest[2] = {-infinity, -infinity};
#pragma unroll
    for (int n = 0; n < score_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = first_query + warp_row + row_in_warp + i / 2 * 8;
        const int key = tile * keys_a_tile + n * 8 + column_in_tile + i % 2;
        const float score = seen_score(of, batch, head, query, key, scores[n][i] * of.scale);
        scores[n][i] = score;
        tile_largest[i / 2] = fmaxf(tile_largest[i / 2], score);
      }
    }

    // What there was shrinks to the new largest.
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float now = fmaxf(largest[r], row_max(tile_largest[r]));
      shift[r] = now == -infinity ? 0.0F : now;  // a row without any visible key yet
      const float shrink = exp2f(largest[r] - shift[r]);
      largest[r] = now;
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < max_depth / 8; ++n) {
        result[n][2 * r] *= shrink;
        result[n][2 * r + 1] *= shrink;
      }
    }
#pragma unroll
    for (int n = 0; n < score_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = exp2f(scores[n][i] - shift[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    }

    // Probabilities times values.
#pragma unroll
    for (int step = 0; step < keys_a_tile / 16; ++step) {
      const std::uint32_t a[4] = {pack_halves<T>(scores[2 * step][0], scores[2 * step][1]),
                                  pack_halves<T>(scores[2 * step][2], scores[2 * step][3]),
                                  pack_halves<T>(scores[2 * step + 1][0], scores[2 * step + 1][1]),
                                  pack_halves<T>(scores[2 * step + 1][2], scores[2 * step + 1][3])};
#pragma unroll
      for (int pair = 0; pair < max_depth / 16; ++pair) {
        std::uint32_t b[4];
        load_matrices<true>(
            b, values_of(tile) + (step * 16 + lane % 16) * stride + pair * 16 + lane / 16 * 8);
        multiply_add<T>(result[2 * pair], a, {b[0], b[1]});
        multiply_add<T>(result[2 * pair + 1], a, {b[2], b[3]});
      }
    }
    __syncthreads();  // before the tile after the next takes this one's place
  }

  T* const out = of.out + batch * of.out_layout.batch + head * of.out_layout.head;
  float total[2];
  unsigned odd_lanes[2];  // that have infinity, or no number, for a query whose shares are numbers
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first_query + warp_row + row_in_warp + r * 8;
    total[r] = row_sum(sum[r]);
    const bool is_nothing =
        (of.nan_to_zero && !(total[r] > 0.0F)) || (of.none_is_zero && total[r] == 0.0F);
    const float share = 1.0F / total[r];
    bool is_odd = false;
#pragma unroll
    for (int n = 0; n < max_depth / 8; ++n) {
      const int column = n * 8 + column_in_tile;
      if (column >= of.value_depth || query >= of.queries) break;
      is_odd |= !std::isfinite(result[n][2 * r]) || !std::isfinite(result[n][2 * r + 1]);
      *reinterpret_cast<std::uint32_t*>(out + query * of.out_layout.row + column) =
          is_nothing ? 0U : pack_halves<T>(result[n][2 * r] * share, result[n][2 * r + 1] * share);
    }
    odd_lanes[r] = __ballot_sync(0xffffffffU, is_odd && total[r] > 0.0F);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    for (int row = 0; row < 8; ++row) {
      const float row_largest = __shfl_sync(0xffffffffU, largest[r], 4 * row);
      const float row_total = __shfl_sync(0xffffffffU, total[r], 4 * row);
      if ((odd_lanes[r] >> (4 * row) & 15U) != 0)
        attend_without_hidden(of, batch, head, first_query + warp_row + row + r * 8, row_largest,
                              row_total);
    }
}

template <typename T>
class Attention final : public Kernel {
 public:
  explicit Attention(const KernelRequest& request)
      : problem_(request.node, request.inputs, request.outputs) {
    if (problem_.has_cache) cache_ = AttentionCache(request, problem_);
  }

  std::int64_t scratch_bytes() const override { return cache_.scratch_bytes(); }

  void run(const KernelIo& io) override {
    AttentionCache::Joined joined{io.inputs[1], io.inputs[2]};
    if (problem_.has_cache) joined = cache_.join(io, io.scratch);
    if (io.outputs[0].elements() == 0) return;
    run_joined(io, joined);
  }

 private:
  void run_joined(const KernelIo& io, const AttentionCache::Joined& joined) const {
    if (std::max(problem_.depth, problem_.value_depth) <= 32)
      run_depth<32>(io, joined);
    else if (std::max(problem_.depth, problem_.value_depth) <= 64)
      run_depth<64>(io, joined);
    else if (std::max(problem_.depth, problem_.value_depth) <= 128)
      run_depth<128>(io, joined);
    else
      run_depth<256>(io, joined);
  }

  template <int max_depth>
  void run_depth(const KernelIo& io, const AttentionCache::Joined& joined) const {
    const auto as_int = [](std::int64_t x) { return static_cast<int>(x); };
    const bool has_mask = io.inputs.size() > 3 && io.inputs[3].present();
    const int query_tiles = as_int((problem_.queries + tile_queries - 1) / tile_queries);
    const Arguments<T> arguments{
        .q = io.inputs[0].as<const T>(),
        .k = joined.keys.as<const T>(),
        .v = joined.values.as<const T>(),
        .out = io.outputs[0].as<T>(),
        .mask = has_mask ? io.inputs[3].data : nullptr,
        .mask_kind = has_mask ? mask_kind(io.inputs[3].type) : MaskKind::none,
        .q_layout = problem_.q,
        .k_layout = problem_.k,
        .v_layout = problem_.v,
        .out_layout = problem_.out,
        .mask_layout = problem_.mask,
        .heads = as_int(problem_.heads),
        .heads_a_key_head = as_int(problem_.heads / problem_.key_heads),
        .queries = as_int(problem_.queries),
        .keys = as_int(problem_.keys),
        .depth = as_int(problem_.depth),
        .value_depth = as_int(problem_.value_depth),
        .query_tiles = query_tiles,
        .first_position = as_int(problem_.first_position),
        .scale = static_cast<float>(problem_.scale) * log2_e,
        .fill = problem_.fill,
        .causal = problem_.causal,
        .nan_to_zero = problem_.nan_to_zero,
        .none_is_zero = problem_.none_is_zero};
    const std::int64_t blocks = problem_.batches * problem_.heads * query_tiles;
    check(cudaFuncSetAttribute(attend<T, max_depth>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes<max_depth>)),
          "shared memory for Attention");
    launch(stream_of(io),
           {dim3(static_cast<unsigned>(blocks)), dim3(threads), shared_bytes<max_depth>},
           attend<T, max_depth>, arguments);
  }

  static MaskKind mask_kind(DataType type) {
    if (type == DataType::boolean) return MaskKind::boolean;
    return type == DataType::float32 ? MaskKind::float32 : MaskKind::half;
  }

  AttentionProblem problem_;
  AttentionCache cache_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  if (!serves_tiled_attention(request.node, request.inputs, request.outputs))
    return make_plain_attention(request);
  if (request.inputs.at(0).type == DataType::float16)
    return std::make_unique<Attention<Float16>>(request);
  return std::make_unique<Attention<BFloat16>>(request);
}

}  // namespace autopar::runtime::cuda
