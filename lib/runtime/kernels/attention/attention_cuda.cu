// Attention without its scores in memory, for half types: FlashAttention-2 (Dao, 2023). Heads that
// share keys and values are rows of one matrix, a query's heads one behind the other. A block of
// four warps takes 64 or 128 such rows, 16 or 32 a warp, or 16 rows and for each warp a quarter of
// the keys, and walks over the keys tile by tile; while one tile is at work, the next is on its way
// to shared memory. Scores live in registers, as the tensor core lays them out, and so do each
// row's largest score and sum so far.
//
// Where that makes too few blocks to read keys and values at the memory's rate, as in decoding,
// several blocks share a matrix's keys, and a second kernel joins what was found (Flash-Decoding:
// Dao, Haziza, Massa, Sizov, 2023).

#include <algorithm>

#include "graph/arena.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/attention/attention_rows_cuda.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/tensor_core.h"
#include "runtime/kernels/cuda/vector_access.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = 32 * warps;

/// How a block's warps share a tile: each has rows of its own, `row_tiles` times 16, and all keys,
/// or all have the same 16 rows, and each keys of its own.
template <int row_tiles_a_warp, bool has_own_keys>
struct Warps {
  static constexpr int row_tiles = row_tiles_a_warp;
  static constexpr int rows_apart = has_own_keys ? 0 : 16 * row_tiles;
  static constexpr int rows = has_own_keys ? 16 : warps * rows_apart;  ///< of a block
  static constexpr int parts = has_own_keys ? warps : 1;  ///< that a block finds of a row
};
using OneTile = Warps<1, false>;
using TwoTiles = Warps<2, false>;
using ByKeys = Warps<1, true>;
static_assert(OneTile::rows == attention_tile_queries);

/// Deeper rows leave no registers for two tiles, and a tile no 16 keys for each warp.
template <typename Shared, int max_depth>
constexpr bool is_possible = std::is_same_v<Shared, OneTile> || max_depth <= 128;

/// Keys a tile: registers and shared memory bound it.
template <int max_depth>
constexpr int tile_keys = max_depth <= 128 ? 64 : 32;

/// Rows in shared memory stand an odd number of 16 bytes apart, so that the eight rows of a matrix
/// lie in different banks.
template <int max_depth>
constexpr int row_stride = max_depth + 8;

template <typename Shared, int max_depth>
constexpr std::size_t shared_bytes =
    sizeof(std::uint16_t) * row_stride<max_depth>*(Shared::rows + 4 * tile_keys<max_depth>);

/// Begins to copy a row's share of `max_depth` elements that starts at `column`; zeros beyond
/// `depth` or where the row is not there.
template <int max_depth, typename T>
__device__ __forceinline__ void fetch_pack(T* shared, const T* from, bool is_row, int row,
                                           int column, int depth) {
  const bool is_there = is_row && column < depth;
  copy_async(shared + row * row_stride<max_depth> + column, is_there ? from + column : from,
             is_there);
}

constexpr int pack = 8;  ///< elements that are copied at once

/// Begins to copy a tile of keys or values, zeros beyond `limit` rows and `depth`.
template <int max_depth, typename T>
__device__ __forceinline__ void fetch_keys(T* shared, const T* from, std::int64_t stride, int limit,
                                           int depth) {
  constexpr int packs = max_depth / pack;
  for (int i = static_cast<int>(threadIdx.x); i < tile_keys<max_depth> * packs; i += threads) {
    const int row = i / packs;
    fetch_pack<max_depth>(shared, row < limit ? from + row * stride : from, row < limit, row,
                          i % packs * pack, depth);
  }
}

/// Begins to copy the block's rows of queries.
template <int max_depth, int rows, typename T>
__device__ __forceinline__ void fetch_queries(T* shared, const RowArguments<T>& of,
                                              std::int64_t batch, std::int64_t key_head,
                                              int first_row) {
  constexpr int packs = max_depth / pack;
  for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += threads) {
    const int row = first_row + i / packs;
    const bool is_there = row < of.rows;
    const std::int64_t at =
        is_there ? of.problem.q.at(batch, of.head_of(key_head, row), of.query_of(row)) : 0;
    fetch_pack<max_depth>(shared, of.q + at, is_there, i / packs, i % packs * pack, of.depth);
  }
}

/// What a lane has of 16 of its warp's rows: rows lane / 4 and 8 further, as the tensor core lays
/// them out.
template <int max_depth>
struct Rows {
  float result[max_depth / 8][4] = {};
  float largest[2] = {-infinity, -infinity};
  float sum[2] = {};
};

/// The scores of those rows and some keys.
template <int keys>
using Scores = float[keys / 8][4];

/// Where a lane's rows and columns are.
struct Place {
  std::int64_t batch;
  std::int64_t key_head;
  int warp_row;  ///< the first of 16
  int lane;

  __device__ int row(int i) const { return warp_row + lane / 4 + i * 8; }
  __device__ int column(int tile, int i) const { return tile * 8 + lane % 4 * 2 + i; }
};

/// Keys from `begin` up to `end`.
struct KeyRange {
  int begin;
  int end;

  __device__ KeyRange(std::int64_t from, std::int64_t to)
      : begin(static_cast<int>(from)), end(static_cast<int>(to)) {}
  __device__ bool holds(int first, int count) const {
    return first >= begin && first + count <= end;
  }
  __device__ bool meets(int first, int count) const { return first < end && first + count > begin; }
};

/// The keys that each of some rows sees. Later rows see later keys.
template <typename T>
__device__ __forceinline__ KeyRange seen_by_all(const RowArguments<T>& of, std::int64_t batch,
                                                int first_row, int rows) {
  const int last_row = std::min(first_row + rows, of.rows) - 1;
  return {of.visible(batch, last_row).begin, of.visible(batch, std::min(first_row, last_row)).end};
}

/// The keys that any of some rows sees; none where there are no such rows.
template <typename T>
__device__ __forceinline__ KeyRange seen_by_any(const RowArguments<T>& of, std::int64_t batch,
                                                int first_row, int rows) {
  if (first_row >= of.rows) return {0, 0};
  const int last_row = std::min(first_row + rows, of.rows) - 1;
  return {of.visible(batch, first_row).begin, of.visible(batch, last_row).end};
}

/// `queries` and `keys`, the warp's, lie in shared memory.
template <int max_depth, int count, int row_tiles, typename T>
__device__ __forceinline__ void multiply_keys(const T* queries, const T* keys, int lane,
                                              Scores<count> (&scores)[row_tiles]) {
  constexpr int stride = row_stride<max_depth>;
#pragma unroll
  for (int step = 0; step < max_depth / 16; ++step) {
    std::uint32_t a[row_tiles][4];
#pragma unroll
    for (int m = 0; m < row_tiles; ++m)
      load_matrices<false>(a[m],
                           queries + (m * 16 + lane % 16) * stride + step * 16 + lane / 16 * 8);
#pragma unroll
    for (int pair = 0; pair < count / 16; ++pair) {
      // Keys of two tiles of 8, both halves of the depth.
      std::uint32_t b[4];
      load_matrices<false>(
          b, keys + (pair * 16 + lane / 16 * 8 + lane % 8) * stride + step * 16 + lane / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        multiply_add<T>(scores[m][2 * pair], a[m], {b[0], b[1]});
        multiply_add<T>(scores[m][2 * pair + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

/// What a lane has of a mask's row; anything for keys that are not there. All is asked for before
/// the first is used: one load after another would take longer than all else.
template <int count, typename T, typename E>
__device__ __forceinline__ void load_mask(const RowArguments<T>& of, const E* row,
                                          const Place& place, int first_key,
                                          Pack<E, 2> (&pairs)[count / 8]) {
  const int keys = static_cast<int>(of.problem.mask_keys);
  if (of.mask_in_pairs) {
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
      pairs[n] = load_pack<E, 2>(row + std::min(first_key + place.column(n, 0), keys - 2));
  } else {
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        pairs[n].values[i] =
            row[std::min(first_key + place.column(n, i), keys - 1) * of.problem.mask.column];
  }
}

template <int count, typename T>
__device__ __forceinline__ void mask_scores(const RowArguments<T>& of, const Place& place,
                                            int first_key, Scores<count>& scores) {
  with_mask(of, [&]<typename E>(const E* mask) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = std::min(place.row(r), of.rows - 1);
      const std::int64_t at =
          of.problem.mask.at(place.batch, of.head_of(place.key_head, row), of.query_of(row));
      Pack<E, 2> pairs[count / 8];
      load_mask<count>(of, mask + at, place, first_key, pairs);
#pragma unroll
      for (int n = 0; n < count / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          scores[n][2 * r + i] = masked(of, pairs[n].values[i], scores[n][2 * r + i]);
    }
  });
}

/// Makes shares of scores, by the new largest of each row, to which what there was shrinks. Whether
/// any of the keys has a share in the lane's rows.
template <int count, int max_depth, typename T>
__device__ __forceinline__ bool soften(const RowArguments<T>& of, const Place& place,
                                       const KeyRange& seen, int first_key, Scores<count>& scores,
                                       Rows<max_depth>& rows) {
  constexpr int score_tiles = count / 8;
  if (of.problem.softcap > 0.0F) {
#pragma unroll
    for (int n = 0; n < score_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = scaled(of, scores[n][i]);
  } else {
#pragma unroll
    for (int n = 0; n < score_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] *= of.scale;
  }
  mask_scores<count>(of, place, first_key, scores);
  if (!seen.holds(first_key, count)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const VisibleKeys visible = of.visible(place.batch, std::min(place.row(r), of.rows - 1));
      const int begin = static_cast<int>(visible.begin) - first_key;
      const int end = static_cast<int>(visible.end) - first_key;
#pragma unroll
      for (int n = 0; n < score_tiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (place.column(n, i) < begin || place.column(n, i) >= end)
            scores[n][2 * r + i] = -infinity;
    }
  }
  bool has_shares = false;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float tile_largest = -infinity;
#pragma unroll
    for (int n = 0; n < score_tiles; ++n)
      tile_largest = fmaxf(tile_largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    const float now = fmaxf(rows.largest[r], row_max(tile_largest));
    const float shift = now == -infinity ? 0.0F : now;  // a row without any visible key yet
    const float shrink = exp2_of(rows.largest[r] - shift);
    rows.largest[r] = now;
#pragma unroll
    for (int n = 0; n < max_depth / 8; ++n) {
      rows.result[n][2 * r] *= shrink;
      rows.result[n][2 * r + 1] *= shrink;
    }
    float sum = 0;
#pragma unroll
    for (int n = 0; n < score_tiles; ++n)
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[n][i] = exp2_of(scores[n][i] - shift);
        sum += scores[n][i];
      }
    rows.sum[r] = rows.sum[r] * shrink + sum;
    has_shares |= sum != 0.0F;
  }
  return has_shares;
}

/// `values`, the warp's, lie in shared memory.
template <int max_depth, int count, int row_tiles, typename T>
__device__ __forceinline__ void mix_values(const T* values, int lane,
                                           const Scores<count> (&shares)[row_tiles],
                                           Rows<max_depth> (&rows)[row_tiles]) {
#pragma unroll
  for (int step = 0; step < count / 16; ++step) {
    std::uint32_t a[row_tiles][4];
#pragma unroll
    for (int m = 0; m < row_tiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = &shares[m][2 * step + i / 2][i % 2 * 2];
        a[m][i] = pack_halves<T>(pair[0], pair[1]);
      }
#pragma unroll
    for (int pair = 0; pair < max_depth / 16; ++pair) {
      std::uint32_t b[4];
      load_matrices<true>(
          b, values + (step * 16 + lane % 16) * row_stride<max_depth> + pair * 16 + lane / 16 * 8);
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        multiply_add<T>(rows[m].result[2 * pair], a[m], {b[0], b[1]});
        multiply_add<T>(rows[m].result[2 * pair + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

template <int max_depth, typename T>
__device__ __forceinline__ void store(const RowArguments<T>& of, const Place& place,
                                      const Rows<max_depth>& rows) {
  float total[2];
  unsigned odd_lanes[2];  // that have infinity, or no number, for a row whose shares are numbers
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = place.row(r);
    total[r] = row_sum(rows.sum[r]);
    const bool is_zero = is_nothing(of, total[r]);
    const float share = 1.0F / total[r];
    bool is_odd = false;
    if (row < of.rows) {
      T* const out = of.out + of.problem.out.at(place.batch, of.head_of(place.key_head, row),
                                                of.query_of(row));
#pragma unroll
      for (int n = 0; n < max_depth / 8; ++n) {
        const int column = place.column(n, 0);
        if (column >= of.value_depth) break;
        const float* pair = &rows.result[n][2 * r];
        is_odd |= !std::isfinite(pair[0]) || !std::isfinite(pair[1]);
        *reinterpret_cast<std::uint32_t*>(out + column) =
            is_zero ? 0U : pack_halves<T>(pair[0] * share, pair[1] * share);
      }
    }
    odd_lanes[r] = __ballot_sync(all_lanes, is_odd && total[r] > 0.0F);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    for (int i = 0; i < 8; ++i) {
      const float row_largest = __shfl_sync(all_lanes, rows.largest[r], 4 * i);
      const float row_total = __shfl_sync(all_lanes, total[r], 4 * i);
      if ((odd_lanes[r] >> (4 * i) & 15U) != 0)
        attend_without_hidden(of, place.batch, place.key_head, place.warp_row + i + r * 8,
                              row_largest, row_total);
    }
}

/// Where the parts lie that are found of a row: value_depth sums each, then, behind those of all
/// rows, a pair each, the largest score and the sum of shares.
struct PartPlaces {
  float* results;
  float* states;

  template <typename T>
  __device__ PartPlaces(const RowArguments<T>& of, std::int64_t matrix, int row) {
    const std::int64_t parts = of.problem.batches * of.key_heads * of.rows * of.parts_a_row;
    const std::int64_t first = (matrix * of.rows + row) * of.parts_a_row;
    results = of.parts + first * of.value_depth;
    states = of.parts + parts * of.value_depth + first * 2;
  }
};

template <int max_depth, typename T>
__device__ __forceinline__ void store_part(const RowArguments<T>& of, const Place& place,
                                           const Rows<max_depth>& rows, int part) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = place.row(r);
    const float sum = row_sum(rows.sum[r]);
    if (row >= of.rows) continue;
    const PartPlaces places(of, place.batch * of.key_heads + place.key_head, row);
    float* const results = places.results + static_cast<std::int64_t>(part) * of.value_depth;
#pragma unroll
    for (int n = 0; n < max_depth / 8; ++n) {
      const int column = place.column(n, 0);
      if (column >= of.value_depth) break;
      store_pack<float, 2>(results + column, {{rows.result[n][2 * r], rows.result[n][2 * r + 1]}});
    }
    if (place.lane % 4 == 0)
      store_pack<float, 2>(places.states + 2 * part, {{rows.largest[r], sum}});
  }
}

/// Puts together what was found of a row; a block a row, a warp for each fourth part.
template <typename T>
__global__ void __launch_bounds__(threads) join_parts(const __grid_constant__ RowArguments<T> of) {
  constexpr int most_pairs_a_lane = 256 / warp_lanes / 2;
  __shared__ float of_warps[warps][256 + 1];  // their sums, and of shares
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const std::int64_t matrix = blockIdx.x / of.rows;
  const int row = static_cast<int>(blockIdx.x) % of.rows;
  const PartPlaces places(of, matrix, row);
  float largest = -infinity;
  for (int part = lane; part < of.parts_a_row; part += warp_lanes)
    largest = fmaxf(largest, places.states[2 * part]);
  largest = reduce_warp(largest, [](float x, float y) { return fmaxf(x, y); });
  const float shift = largest == -infinity ? 0.0F : largest;
  float total = 0;
  float mixed[most_pairs_a_lane][2] = {};
#pragma unroll 8
  for (int part = warp; part < of.parts_a_row; part += warps) {
    const auto [part_largest, part_sum] = load_pack<float, 2>(places.states + 2 * part).values;
    const float share = exp2_of(part_largest - shift);
    total += share * part_sum;
#pragma unroll
    for (int i = 0; i < most_pairs_a_lane; ++i) {
      const int column = 2 * (i * warp_lanes + lane);
      if (column >= of.value_depth) break;
      const auto pair = load_pack<float, 2>(
          places.results + static_cast<std::int64_t>(part) * of.value_depth + column);
      mixed[i][0] += share * pair.values[0];
      mixed[i][1] += share * pair.values[1];
    }
  }
#pragma unroll
  for (int i = 0; i < most_pairs_a_lane; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      if (const int column = 2 * (i * warp_lanes + lane) + j; column < of.value_depth)
        of_warps[warp][column] = mixed[i][j];
  if (lane == 0) of_warps[warp][of.value_depth] = total;
  __syncthreads();
  if (warp != 0) return;
  const auto sum_at = [&](int column) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) sum += of_warps[w][column];
    return sum;
  };
  total = sum_at(of.value_depth);
  const std::int64_t batch = matrix / of.key_heads;
  const std::int64_t key_head = matrix % of.key_heads;
  T* const out = of.out + of.problem.out.at(batch, of.head_of(key_head, row), of.query_of(row));
  const bool is_zero = is_nothing(of, total);
  bool is_odd = false;
  for (int column = 2 * lane; column < of.value_depth; column += 2 * warp_lanes) {
    const float pair[2] = {sum_at(column), sum_at(column + 1)};
    is_odd |= !std::isfinite(pair[0]) || !std::isfinite(pair[1]);
    *reinterpret_cast<std::uint32_t*>(out + column) =
        is_zero ? 0U : pack_halves<T>(pair[0] / total, pair[1] / total);
  }
  if (__any_sync(all_lanes, is_odd) && total > 0.0F)
    attend_without_hidden(of, batch, key_head, row, largest, total);
}

template <typename T, int max_depth, typename Shared>
__global__ void __launch_bounds__(threads) attend(const __grid_constant__ RowArguments<T> of) {
  constexpr int stride = row_stride<max_depth>;
  constexpr int keys_a_tile = tile_keys<max_depth>;
  constexpr int keys_a_warp = keys_a_tile / Shared::parts;
  constexpr int row_tiles = Shared::row_tiles;
  T* const queries = reinterpret_cast<T*>(dynamic_shared());
  T* const tiles = queries + Shared::rows * stride;  // keys and values, twice
  const auto keys_of = [&](int tile) { return tiles + (tile % 2) * 2 * keys_a_tile * stride; };
  const auto values_of = [&](int tile) { return keys_of(tile) + keys_a_tile * stride; };

  // The last rows see most keys, so they begin.
  const int matrices = static_cast<int>(of.problem.batches) * of.key_heads;
  const int split = static_cast<int>(blockIdx.x) % of.splits;
  const int block = static_cast<int>(blockIdx.x) / of.splits;
  const int first_row = (of.row_tiles - 1 - block / matrices) * Shared::rows;
  const std::int64_t batch = block % matrices / of.key_heads;
  const std::int64_t key_head = block % matrices % of.key_heads;
  const T* const k = of.k + of.problem.k.at(batch, key_head, 0);
  const T* const v = of.v + of.problem.v.at(batch, key_head, 0);
  const KeyRange seen = seen_by_any(of, batch, first_row, Shared::rows);
  const int begin = std::max(split * of.tiles_a_split, seen.begin / keys_a_tile);
  const int end =
      std::min((split + 1) * of.tiles_a_split, (seen.end + keys_a_tile - 1) / keys_a_tile);

  const auto fetch_tile = [&](int tile) {
    const int first = tile * keys_a_tile;
    fetch_keys<max_depth>(keys_of(tile), k + first * of.problem.k.row, of.problem.k.row,
                          of.keys - first, of.depth);
    fetch_keys<max_depth>(values_of(tile), v + first * of.problem.v.row, of.problem.v.row,
                          of.keys - first, of.value_depth);
  };
  fetch_queries<max_depth, Shared::rows>(queries, of, batch, key_head, first_row);
  if (begin < end) fetch_tile(begin);
  end_copy_batch();

  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int warp_row = warp * Shared::rows_apart;
  const int part = warp % Shared::parts;
  const auto place_of = [&](int m) {
    return Place{batch, key_head, first_row + warp_row + m * 16, lane};
  };
  const KeyRange seen_by_warp = seen_by_any(of, batch, first_row + warp_row, 16 * row_tiles);
  const KeyRange seen_by_rows[] = {
      seen_by_all(of, batch, first_row + warp_row, 16),
      seen_by_all(of, batch, first_row + warp_row + 16 * (row_tiles - 1), 16)};
  Rows<max_depth> rows[row_tiles];
  for (int tile = begin; tile < end; ++tile) {
    if (tile + 1 < end) fetch_tile(tile + 1);
    end_copy_batch();
    wait_for_copies<1>();
    __syncthreads();
    const int first_key = tile * keys_a_tile + part * keys_a_warp;
    if (seen_by_warp.meets(first_key, keys_a_warp)) {
      const int warp_keys = part * keys_a_warp * stride;
      Scores<keys_a_warp> scores[row_tiles] = {};
      multiply_keys<max_depth, keys_a_warp>(queries + warp_row * stride, keys_of(tile) + warp_keys,
                                            lane, scores);
      bool has_shares = false;
#pragma unroll
      for (int m = 0; m < row_tiles; ++m)
        has_shares |=
            soften<keys_a_warp>(of, place_of(m), seen_by_rows[m], first_key, scores[m], rows[m]);
      if (__any_sync(all_lanes, has_shares))
        mix_values<max_depth, keys_a_warp>(values_of(tile) + warp_keys, lane, scores, rows);
    }
    __syncthreads();  // before the tile after the next takes this one's place
  }
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
    if (of.parts_a_row > 1)
      store_part<max_depth>(of, place_of(m), rows[m], split * Shared::parts + part);
    else
      store<max_depth>(of, place_of(m), rows[m]);
  }
}

/// How a problem is laid over blocks.
struct Division {
  enum class Form { one_tile, two_tiles, by_keys };

  Form form = Form::one_tile;
  int row_tiles = 1;
  int splits = 1;
  int tiles_a_split = 1;
  int parts_a_row = 1;
};

/// Calls `work` with the type of the division's Warps.
template <typename Work>
void with_form(Division::Form form, Work work) {
  switch (form) {
    case Division::Form::one_tile:
      return work(OneTile{});
    case Division::Form::two_tiles:
      return work(TwoTiles{});
    case Division::Form::by_keys:
      return work(ByKeys{});
  }
}

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <int max_depth>
Division::Form form_of(std::int64_t matrices, std::int64_t rows, std::int64_t multiprocessors) {
  if (is_possible<ByKeys, max_depth> && rows <= ByKeys::rows) return Division::Form::by_keys;
  const bool fills_all = matrices * divided(rows, TwoTiles::rows) >= multiprocessors;
  return is_possible<TwoTiles, max_depth> && rows > OneTile::rows && fills_all
             ? Division::Form::two_tiles
             : Division::Form::one_tile;
}

template <int max_depth>
Division division_of(const AttentionProblem& of, std::int64_t multiprocessors) {
  constexpr std::int64_t least_tiles_a_split = 2;
  const std::int64_t matrices = of.batches * of.key_heads;
  const std::int64_t rows = of.queries * (of.heads / of.key_heads);
  Division made;
  made.form = form_of<max_depth>(matrices, rows, multiprocessors);
  with_form(made.form, [&]<typename Shared>(Shared) {
    // As many blocks as multiprocessors run side by side, by their shared memory.
    constexpr std::size_t shared_of_multiprocessor = 227 << 10;
    constexpr std::int64_t at_once = shared_of_multiprocessor / shared_bytes<Shared, max_depth>;
    const std::int64_t row_tiles = divided(rows, Shared::rows);
    const std::int64_t key_tiles =
        std::max<std::int64_t>(divided(of.keys, tile_keys<max_depth>), 1);
    const std::int64_t blocks = std::max<std::int64_t>(matrices * row_tiles, 1);
    const std::int64_t wanted = std::max<std::int64_t>(at_once * multiprocessors / blocks, 1);
    const std::int64_t tiles_a_split =
        std::min(key_tiles, std::max(divided(key_tiles, wanted), least_tiles_a_split));
    made.row_tiles = static_cast<int>(row_tiles);
    made.tiles_a_split = static_cast<int>(tiles_a_split);
    made.splits = static_cast<int>(divided(key_tiles, tiles_a_split));
    made.parts_a_row = made.splits * Shared::parts;
  });
  return made;
}

std::int64_t part_bytes(const AttentionProblem& of, const Division& division) {
  if (division.parts_a_row == 1) return 0;
  return static_cast<std::int64_t>(sizeof(float)) * of.batches * of.heads * of.queries *
         division.parts_a_row * (of.value_depth + 2);
}

template <typename T>
bool is_mask_in_pairs(const AttentionData<T>& data) {
  const AttentionProblem& of = data.problem;
  const std::int64_t element = data.mask_kind == MaskKind::boolean   ? 1
                               : data.mask_kind == MaskKind::float32 ? sizeof(float)
                                                                     : sizeof(T);
  const auto is_even = [](std::int64_t x) { return x % 2 == 0; };
  return data.mask != nullptr && of.mask.column == 1 && is_even(of.mask_keys) &&
         is_even(of.mask.row) && is_even(of.mask.head) && is_even(of.mask.batch) &&
         is_aligned(data.mask, 0, 2 * element);
}

template <int max_depth, typename Shared, typename T>
void launch_attend(const RowArguments<T>& of, cudaStream_t stream) {
  constexpr std::size_t shared = shared_bytes<Shared, max_depth>;
  check(cudaFuncSetAttribute(attend<T, max_depth, Shared>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
        "shared memory for Attention");
  const std::int64_t matrices = of.problem.batches * of.key_heads;
  launch(stream,
         {dim3(static_cast<unsigned>(matrices * of.row_tiles * of.splits)), dim3(threads), shared},
         attend<T, max_depth, Shared>, of);
  if (of.parts_a_row == 1) return;
  launch(stream, {dim3(static_cast<unsigned>(matrices * of.rows)), dim3(threads)}, join_parts<T>,
         of);
}

template <int max_depth, typename T>
void launch_depth(const AttentionData<T>& data, const std::int64_t* lengths,
                  const Division& division, float* parts, cudaStream_t stream) {
  const AttentionProblem& of = data.problem;
  const auto as_int = [](std::int64_t x) { return static_cast<int>(x); };
  const int group = as_int(of.heads / of.key_heads);
  const RowArguments<T> arguments{data,
                                  as_int(of.key_heads),
                                  group,
                                  as_int(of.queries) * group,
                                  as_int(of.keys),
                                  as_int(of.depth),
                                  as_int(of.value_depth),
                                  lengths,
                                  static_cast<float>(of.scale) * log2_e,
                                  is_mask_in_pairs(data),
                                  division.row_tiles,
                                  division.splits,
                                  division.tiles_a_split,
                                  division.parts_a_row,
                                  parts};
  with_form(division.form, [&]<typename Shared>(Shared) {
    if constexpr (is_possible<Shared, max_depth>)
      launch_attend<max_depth, Shared>(arguments, stream);
  });
}

/// Calls `work` with the least depth, as a constant, that kernels are made for and that suffices.
template <typename Work>
void with_depth(const AttentionProblem& of, Work work) {
  const std::int64_t deepest = std::max(of.depth, of.value_depth);
  if (deepest <= 32)
    work(std::integral_constant<int, 32>{});
  else if (deepest <= 64)
    work(std::integral_constant<int, 64>{});
  else if (deepest <= 128)
    work(std::integral_constant<int, 128>{});
  else
    work(std::integral_constant<int, 256>{});
}

template <typename T>
std::unique_ptr<Kernel> make_tiled(const KernelRequest& request) {
  AttentionProblem problem(request.node, request.inputs, request.outputs);
  AttentionCache cache(request, problem);
  Division division;
  with_depth(problem, [&](auto depth) {
    division = division_of<depth>(problem, device_of(request).multiprocessors());
  });
  const std::int64_t cache_bytes = graph::aligned(cache.scratch_bytes());
  const std::int64_t scratch_bytes = cache_bytes + part_bytes(problem, division);
  auto run = [problem, division, cache_bytes, cache = std::move(cache)](const KernelIo& io) {
    const AttentionData<T> data(problem, cache, io);
    if (io.outputs[0].elements() == 0) return;
    const auto* lengths = problem.has_lengths ? io.inputs[6].as<const std::int64_t>() : nullptr;
    auto* const parts = reinterpret_cast<float*>(io.scratch + cache_bytes);
    with_depth(problem, [&](auto depth) {
      launch_depth<depth>(data, lengths, division, parts, stream_of(io));
    });
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
