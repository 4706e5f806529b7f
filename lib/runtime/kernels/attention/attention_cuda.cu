// Attention without its scores in memory, for half types: FlashAttention-2 (Dao, 2023). A block of
// four warps takes 64 queries of one head, 16 a warp, and walks over the keys tile by tile; while
// one tile is at work, the next is on its way to shared memory. Scores live in registers, as the
// tensor core lays them out, and so do each row's largest score and sum so far.

#include <algorithm>
#include <limits>

#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/tensor_core.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int tile_queries = attention_tile_queries;
static_assert(tile_queries == 16 * warps);
constexpr float log2_e = 1.44269504F;

template <typename T>
struct Arguments : AttentionData<T> {
  int heads;
  int heads_a_key_head;
  int queries;
  int keys;
  int depth;
  int value_depth;
  int query_tiles;
  int first_position;
  float scale;  ///< of scores, times log2(e)
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
      return static_cast<const std::uint8_t*>(of.mask)[at] != 0 ? score : in_log2(of.problem.fill);
    case MaskKind::float32:
      return score + in_log2(static_cast<const float*>(of.mask)[at]);
    case MaskKind::same:
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
    score =
        masked(of, of.problem.mask.at(batch, head, query) + key * of.problem.mask.column, score);
  const bool is_hidden = key >= of.keys || (of.problem.causal && key > query + of.first_position);
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
  const T* const q = of.q + of.problem.q.at(batch, head, query);
  const T* const k = of.k + of.problem.k.at(batch, key_head, 0);
  const T* const v = of.v + of.problem.v.at(batch, key_head, 0);
  float mixed[most_columns_a_lane] = {};
  for (int first = 0; first < of.keys; first += lanes) {
    const int key = first + lane;
    float score = 0;
    for (int d = 0; d < of.depth && key < of.keys; ++d)
      score += widened(q[d]) * widened(k[key * of.problem.k.row + d]);
    const float share = exp2f(seen_score(of, batch, head, query, key, score * of.scale) - largest);
    for (int other = 0; other < lanes; ++other) {
      const float share_of_key = __shfl_sync(0xffffffffU, share, other);
      if (share_of_key == 0.0F) continue;
      const T* const row = v + (first + other) * of.problem.v.row;
#pragma unroll
      for (int i = 0; i < most_columns_a_lane; ++i)
        if (const int column = i * lanes + lane; column < of.value_depth)
          mixed[i] += share_of_key * widened(row[column]);
    }
  }
  T* const out = of.out + of.problem.out.at(batch, head, query);
  __syncwarp();  // other lanes have written there
#pragma unroll
  for (int i = 0; i < most_columns_a_lane; ++i)
    if (const int column = i * lanes + lane; column < of.value_depth)
      out[column] = narrowed<T>(mixed[i] / total);
}

/// What a lane has of its warp's 16 queries: rows lane / 4 and 8 further, as the tensor core lays
/// them out.
template <int max_depth>
struct Rows {
  float result[max_depth / 8][4] = {};
  float largest[2] = {-std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()};
  float sum[2] = {};
};

/// The scores of those rows and a tile of keys.
template <int max_depth>
using TileScores = float[tile_keys<max_depth> / 8][4];

/// Where a lane's rows and columns are.
struct Place {
  std::int64_t batch;
  std::int64_t head;
  int warp_query;  ///< the warp's first
  int lane;

  __device__ int query(int row) const { return warp_query + lane / 4 + row * 8; }
  __device__ int column(int tile, int i) const { return tile * 8 + lane % 4 * 2 + i; }
};

/// `queries` and `keys` lie in shared memory.
template <int max_depth, typename T>
__device__ __forceinline__ void multiply_keys(const T* queries, const T* keys, int lane,
                                              TileScores<max_depth>& scores) {
  constexpr int stride = row_stride<max_depth>;
#pragma unroll
  for (int step = 0; step < max_depth / 16; ++step) {
    std::uint32_t a[4];
    load_matrices<false>(a, queries + lane % 16 * stride + step * 16 + lane / 16 * 8);
#pragma unroll
    for (int pair = 0; pair < tile_keys<max_depth> / 16; ++pair) {
      // Keys of two tiles of 8, both halves of the depth.
      std::uint32_t b[4];
      load_matrices<false>(
          b, keys + (pair * 16 + lane / 16 * 8 + lane % 8) * stride + step * 16 + lane / 8 % 2 * 8);
      multiply_add<T>(scores[2 * pair], a, {b[0], b[1]});
      multiply_add<T>(scores[2 * pair + 1], a, {b[2], b[3]});
    }
  }
}

/// Makes shares of scores, by the new largest of each row, to which what there was shrinks.
template <int max_depth, typename T>
__device__ __forceinline__ void soften(const Arguments<T>& of, const Place& place, int first_key,
                                       TileScores<max_depth>& scores, Rows<max_depth>& rows) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr int score_tiles = tile_keys<max_depth> / 8;
  float tile_largest[2] = {-infinity, -infinity};
#pragma unroll
  for (int n = 0; n < score_tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float score = seen_score(of, place.batch, place.head, place.query(i / 2),
                                     first_key + place.column(n, i % 2), scores[n][i] * of.scale);
      scores[n][i] = score;
      tile_largest[i / 2] = fmaxf(tile_largest[i / 2], score);
    }
  }
  float shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float now = fmaxf(rows.largest[r], row_max(tile_largest[r]));
    shift[r] = now == -infinity ? 0.0F : now;  // a row without any visible key yet
    const float shrink = exp2f(rows.largest[r] - shift[r]);
    rows.largest[r] = now;
    rows.sum[r] *= shrink;
#pragma unroll
    for (int n = 0; n < max_depth / 8; ++n) {
      rows.result[n][2 * r] *= shrink;
      rows.result[n][2 * r + 1] *= shrink;
    }
  }
#pragma unroll
  for (int n = 0; n < score_tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = exp2f(scores[n][i] - shift[i / 2]);
      rows.sum[i / 2] += scores[n][i];
    }
  }
}

/// `values` lie in shared memory.
template <int max_depth, typename T>
__device__ __forceinline__ void mix_values(const T* values, int lane,
                                           const TileScores<max_depth>& shares,
                                           Rows<max_depth>& rows) {
#pragma unroll
  for (int step = 0; step < tile_keys<max_depth> / 16; ++step) {
    const std::uint32_t a[4] = {pack_halves<T>(shares[2 * step][0], shares[2 * step][1]),
                                pack_halves<T>(shares[2 * step][2], shares[2 * step][3]),
                                pack_halves<T>(shares[2 * step + 1][0], shares[2 * step + 1][1]),
                                pack_halves<T>(shares[2 * step + 1][2], shares[2 * step + 1][3])};
#pragma unroll
    for (int pair = 0; pair < max_depth / 16; ++pair) {
      std::uint32_t b[4];
      load_matrices<true>(
          b, values + (step * 16 + lane % 16) * row_stride<max_depth> + pair * 16 + lane / 16 * 8);
      multiply_add<T>(rows.result[2 * pair], a, {b[0], b[1]});
      multiply_add<T>(rows.result[2 * pair + 1], a, {b[2], b[3]});
    }
  }
}

template <int max_depth, typename T>
__device__ __forceinline__ void store(const Arguments<T>& of, const Place& place,
                                      const Rows<max_depth>& rows) {
  T* const out = of.out + of.problem.out.at(place.batch, place.head, 0);
  float total[2];
  unsigned odd_lanes[2];  // that have infinity, or no number, for a query whose shares are numbers
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = place.query(r);
    total[r] = row_sum(rows.sum[r]);
    const bool is_nothing = (of.problem.nan_to_zero && !(total[r] > 0.0F)) ||
                            (of.problem.none_is_zero && total[r] == 0.0F);
    const float share = 1.0F / total[r];
    bool is_odd = false;
#pragma unroll
    for (int n = 0; n < max_depth / 8; ++n) {
      const int column = place.column(n, 0);
      if (column >= of.value_depth || query >= of.queries) break;
      const float* pair = &rows.result[n][2 * r];
      is_odd |= !std::isfinite(pair[0]) || !std::isfinite(pair[1]);
      *reinterpret_cast<std::uint32_t*>(out + query * of.problem.out.row + column) =
          is_nothing ? 0U : pack_halves<T>(pair[0] * share, pair[1] * share);
    }
    odd_lanes[r] = __ballot_sync(0xffffffffU, is_odd && total[r] > 0.0F);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    for (int row = 0; row < 8; ++row) {
      const float row_largest = __shfl_sync(0xffffffffU, rows.largest[r], 4 * row);
      const float row_total = __shfl_sync(0xffffffffU, total[r], 4 * row);
      if ((odd_lanes[r] >> (4 * row) & 15U) != 0)
        attend_without_hidden(of, place.batch, place.head, place.warp_query + row + r * 8,
                              row_largest, row_total);
    }
}

template <typename T, int max_depth>
__global__ void __launch_bounds__(threads) attend(const __grid_constant__ Arguments<T> of) {
  constexpr int stride = row_stride<max_depth>;
  constexpr int keys_a_tile = tile_keys<max_depth>;
  T* const queries = reinterpret_cast<T*>(dynamic_shared());
  T* const tiles = queries + tile_queries * stride;  // keys and values, twice
  const auto keys_of = [&](int tile) { return tiles + (tile % 2) * 2 * keys_a_tile * stride; };
  const auto values_of = [&](int tile) { return keys_of(tile) + keys_a_tile * stride; };

  // The last queries see most keys, so they begin.
  const int block = static_cast<int>(blockIdx.x);
  const int first_query = (of.query_tiles - 1 - block % of.query_tiles) * tile_queries;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const Place place{block / of.query_tiles / of.heads, block / of.query_tiles % of.heads,
                    first_query + warp_row, static_cast<int>(threadIdx.x) % 32};
  const std::int64_t key_head = place.head / of.heads_a_key_head;
  const T* const k = of.k + of.problem.k.at(place.batch, key_head, 0);
  const T* const v = of.v + of.problem.v.at(place.batch, key_head, 0);
  const int seen = first_query + tile_queries + of.first_position;
  const int visible = !of.problem.causal || seen > of.keys ? of.keys : (seen > 0 ? seen : 0);
  const int tile_count = (visible + keys_a_tile - 1) / keys_a_tile;

  const auto fetch_tile = [&](int tile) {
    const int first = tile * keys_a_tile;
    fetch<max_depth, keys_a_tile>(keys_of(tile), k + first * of.problem.k.row, of.problem.k.row,
                                  of.keys - first, of.depth);
    fetch<max_depth, keys_a_tile>(values_of(tile), v + first * of.problem.v.row, of.problem.v.row,
                                  of.keys - first, of.value_depth);
  };
  fetch<max_depth, tile_queries>(queries,
                                 of.q + of.problem.q.at(place.batch, place.head, first_query),
                                 of.problem.q.row, of.queries - first_query, of.depth);
  if (tile_count > 0) fetch_tile(0);
  end_copy_batch();

  Rows<max_depth> rows;
  for (int tile = 0; tile < tile_count; ++tile) {
    if (tile + 1 < tile_count) fetch_tile(tile + 1);
    end_copy_batch();
    wait_for_copies<1>();
    __syncthreads();
    TileScores<max_depth> scores = {};
    multiply_keys<max_depth>(queries + warp_row * stride, keys_of(tile), place.lane, scores);
    soften<max_depth>(of, place, tile * keys_a_tile, scores, rows);
    mix_values<max_depth>(values_of(tile), place.lane, scores, rows);
    __syncthreads();  // before the tile after the next takes this one's place
  }
  store(of, place, rows);
}

template <int max_depth, typename T>
void launch_depth(const AttentionData<T>& data, cudaStream_t stream) {
  const AttentionProblem& of = data.problem;
  const auto as_int = [](std::int64_t x) { return static_cast<int>(x); };
  const int query_tiles = as_int((of.queries + tile_queries - 1) / tile_queries);
  const Arguments<T> arguments{data,
                               as_int(of.heads),
                               as_int(of.heads / of.key_heads),
                               as_int(of.queries),
                               as_int(of.keys),
                               as_int(of.depth),
                               as_int(of.value_depth),
                               query_tiles,
                               as_int(of.first_position),
                               static_cast<float>(of.scale) * log2_e};
  check(cudaFuncSetAttribute(attend<T, max_depth>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes<max_depth>)),
        "shared memory for Attention");
  launch(stream,
         {dim3(static_cast<unsigned>(of.batches * of.heads * query_tiles)), dim3(threads),
          shared_bytes<max_depth>},
         attend<T, max_depth>, arguments);
}

template <typename T>
std::unique_ptr<Kernel> make_tiled(const KernelRequest& request) {
  AttentionProblem problem(request.node, request.inputs, request.outputs);
  AttentionCache cache(request, problem);
  const std::int64_t scratch_bytes = cache.scratch_bytes();
  auto run = [problem, cache = std::move(cache)](const KernelIo& io) {
    const AttentionData<T> data(problem, cache, io);
    const std::int64_t deepest = std::max(problem.depth, problem.value_depth);
    if (io.outputs[0].elements() == 0) return;
    if (deepest <= 32)
      launch_depth<32>(data, stream_of(io));
    else if (deepest <= 64)
      launch_depth<64>(data, stream_of(io));
    else if (deepest <= 128)
      launch_depth<128>(data, stream_of(io));
    else
      launch_depth<256>(data, stream_of(io));
  };
  return make_kernel(std::move(run), scratch_bytes);
}

}  // namespace

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  if (!serves_tiled_attention(request.node, request.inputs, request.outputs))
    return make_plain_attention(request);
  return kernel_for_type(request, request.inputs.at(0).type, Halves{},
                         [&]<typename T>(T) { return make_tiled<T>(request); });
}

}  // namespace autopar::runtime::cuda
