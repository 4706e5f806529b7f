// Contiguous memory is copied by a kernel as well: in a graph of kernels cudaMemcpyAsync would be a
// node that may change to a copy engine and back, which costs more than most copies take.

#include "runtime/kernels/movement/strided_copy_cuda.h"

#include <algorithm>
#include <bit>

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"

namespace autopar::runtime::cuda {
namespace {

constexpr unsigned word_threads = 128;
/// Loads that a thread has under way at a time.
constexpr unsigned words_a_thread = 4;
constexpr unsigned words_a_block = word_threads * words_a_thread;
constexpr int most_jobs = 8;

struct WordJob {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::uint32_t first_block = 0;
  WordLayout layout;
};

/// What one launch copies.
template <int most>
struct WordJobs {
  int count = 0;
  WordJob jobs[most];
};

template <typename Store, typename Load>
__device__ Store stored(Load word) {
  if constexpr (sizeof(Store) == sizeof(Load))
    return word;
  else
    return word_of<Store>(repeated(word));
}

template <typename Load, typename Store, int most>
__global__ void __launch_bounds__(word_threads)
    copy_words(const __grid_constant__ WordJobs<most> batch) {
  int j = 0;
  while (j + 1 < batch.count && blockIdx.x >= batch.jobs[j + 1].first_block) ++j;
  const WordJob& job = batch.jobs[j];
  const Load* in = reinterpret_cast<const Load*>(job.in);
  Store* out = reinterpret_cast<Store*>(job.out);
  const std::uint32_t first = (blockIdx.x - job.first_block) * words_a_block + threadIdx.x;
  Store words[words_a_thread];
  std::int64_t to[words_a_thread];
#pragma unroll
  for (unsigned i = 0; i < words_a_thread; ++i) {
    const std::uint32_t word = first + i * word_threads;
    if (word >= job.layout.words) continue;
    const WordOffsets offsets = offsets_of(job.layout, word);
    words[i] = stored<Store>(in[offsets.in]);
    to[i] = offsets.out;
  }
#pragma unroll
  for (unsigned i = 0; i < words_a_thread; ++i)
    if (first + i * word_threads < job.layout.words) out[to[i]] = words[i];
}

constexpr unsigned tile_lanes = 32;
constexpr unsigned tile_warps = 8;

/// Short words make longer sides, so that a row of a tile is a whole sector of memory and more.
constexpr unsigned tile_side(std::size_t word_bytes) { return word_bytes <= 2 ? 64 : 32; }

struct TileJob {
  TransposedMatrix matrix;
  FastDivisor row_tiles;
  FastDivisor column_tiles;
  WordLayout matrices;
};

template <typename Word>
__global__ void __launch_bounds__(tile_lanes* tile_warps)
    transpose_tiles(const Word* in, Word* out, const __grid_constant__ TileJob job) {
  constexpr unsigned side = tile_side(sizeof(Word));
  // A column is a bank longer than it need be: lanes along it then are in banks of their own.
  constexpr unsigned padding = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;
  constexpr unsigned steps = side / tile_warps;
  constexpr unsigned parts = side / tile_lanes;
  __shared__ Word tile[side][side + padding];
  std::uint32_t rest = blockIdx.x;
  const std::uint32_t first_column = job.column_tiles.divide(rest) * side;
  const std::uint32_t first_row = job.row_tiles.divide(rest) * side;
  const WordOffsets offsets = offsets_of(job.matrices, rest);
  const TransposedMatrix& m = job.matrix;
  in += offsets.in + first_row * m.in_row + first_column * m.in_column;
  out += offsets.out + first_row * m.out_row + first_column * m.out_column;
  const std::uint32_t rows = m.rows - first_row;
  const std::uint32_t columns = m.columns - first_column;

  Word words[steps][parts];
#pragma unroll
  for (unsigned step = 0; step < steps; ++step)
#pragma unroll
    for (unsigned part = 0; part < parts; ++part) {
      const unsigned column = step * tile_warps + threadIdx.y;
      const unsigned row = part * tile_lanes + threadIdx.x;
      if (column < columns && row < rows)
        words[step][part] = in[row * m.in_row + column * m.in_column];
    }
#pragma unroll
  for (unsigned step = 0; step < steps; ++step)
#pragma unroll
    for (unsigned part = 0; part < parts; ++part)
      tile[step * tile_warps + threadIdx.y][part * tile_lanes + threadIdx.x] = words[step][part];
  __syncthreads();
#pragma unroll
  for (unsigned step = 0; step < steps; ++step)
#pragma unroll
    for (unsigned part = 0; part < parts; ++part) {
      const unsigned row = step * tile_warps + threadIdx.y;
      const unsigned column = part * tile_lanes + threadIdx.x;
      if (column < columns && row < rows)
        out[row * m.out_row + column * m.out_column] = tile[column][row];
    }
}

void launch_tiles(const CopyJob& job, const CopyPlace& place, cudaStream_t stream) {
  visit_word(job.load_bytes, [&]<typename Word>(Word) {
    if constexpr (sizeof(Word) < widest_word) {
      constexpr std::int64_t side = tile_side(sizeof(Word));
      const std::int64_t row_tiles = (job.matrix.rows + side - 1) / side;
      const std::int64_t column_tiles = (job.matrix.columns + side - 1) / side;
      const auto blocks = static_cast<unsigned>(row_tiles * column_tiles * job.layout.words);
      launch(stream, {dim3(blocks), dim3(tile_lanes, tile_warps)}, transpose_tiles<Word>,
             reinterpret_cast<const Word*>(place.in + job.in_offset),
             reinterpret_cast<Word*>(place.out + job.out_offset),
             TileJob{job.matrix, FastDivisor(row_tiles), FastDivisor(column_tiles), job.layout});
    }
  });
}

/// Jobs that one kernel serves, until they are launched.
template <typename Load, typename Store>
class Batch {
 public:
  explicit Batch(cudaStream_t stream) : stream_(stream) {}

  void add(const CopyJob& job, const CopyPlace& place) {
    if (all_.count == most_jobs) launch_all();
    all_.jobs[all_.count++] = {place.in + job.in_offset, place.out + job.out_offset, blocks_,
                               job.layout};
    blocks_ += (job.layout.words - 1) / words_a_block + 1;
  }

  void launch_all() {
    const LaunchShape shape{dim3(blocks_), dim3(word_threads)};
    if (all_.count == 1)
      launch(stream_, shape, copy_words<Load, Store, 1>, WordJobs<1>{1, {all_.jobs[0]}});
    else if (all_.count > 1)
      launch(stream_, shape, copy_words<Load, Store, most_jobs>, all_);
    all_.count = 0;
    blocks_ = 0;
  }

 private:
  cudaStream_t stream_;
  WordJobs<most_jobs> all_;
  std::uint32_t blocks_ = 0;
};

int alignment_exponent(const void* pointer) {
  return std::min(4, std::countr_zero(reinterpret_cast<std::uintptr_t>(pointer)));
}

/// Elements of 16 bytes as two of 8 each, which lie side by side.
void split_large_elements(CopyLayout& layout) {
  if (layout.element_bytes != 16) return;
  layout.element_bytes = 8;
  layout.shape.push_back(2);
  for (auto* strides : {&layout.in_strides, &layout.out_strides}) {
    for (std::int64_t& stride : *strides) stride *= 2;
    strides->push_back(1);
  }
}

}  // namespace

CudaStridedCopies::CudaStridedCopies(std::vector<CopyLayout> layouts, std::int64_t most_elements) {
  for (CopyLayout& layout : layouts) {
    require(std::has_single_bit(static_cast<unsigned>(layout.element_bytes)) &&
                layout.element_bytes <= 16,
            "elements of 1, 2, 4, 8 or 16 bytes are copied");
    split_large_elements(layout);
    Copy& copy = copies_.emplace_back();
    copy.repeats = repeats_elements(layout);
    for (std::size_t i = 0; i < copy.jobs.size(); ++i)
      if (const int alignment = 1 << i; alignment >= layout.element_bytes)
        copy.jobs[i] = plan_copy(layout, alignment, most_elements);
  }
}

const std::vector<CopyJob>& CudaStridedCopies::jobs_at(const Copy& copy, const CopyPlace& place) {
  int exponent = alignment_exponent(place.out);
  if (!copy.repeats) exponent = std::min(exponent, alignment_exponent(place.in));
  return copy.jobs[static_cast<std::size_t>(exponent)];
}

template <typename Load, typename Store>
void CudaStridedCopies::run_words(std::span<const CopyPlace> places, void* stream) const {
  Batch<Load, Store> batch(static_cast<cudaStream_t>(stream));
  for (std::size_t i = 0; i < copies_.size(); ++i)
    for (const CopyJob& job : jobs_at(copies_[i], places[i]))
      if (job.form != CopyForm::tiles && job.load_bytes == sizeof(Load) &&
          job.store_bytes == sizeof(Store))
        batch.add(job, places[i]);
  batch.launch_all();
}

void load_strided_copies() {
  const auto load_words = [&]<typename Load, typename Store>(Load, Store) {
    load(copy_words<Load, Store, 1>);
    load(copy_words<Load, Store, most_jobs>);
  };
  for (int bytes = 1; bytes <= widest_word; bytes *= 2)
    visit_word(bytes, [&]<typename Word>(Word word) {
      load_words(word, word);
      if constexpr (sizeof(Word) < widest_word) {
        load_words(word, uint4{});
        load(transpose_tiles<Word>);
      }
    });
}

void CudaStridedCopies::run(std::span<const CopyPlace> places, void* stream) const {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    for (const CopyJob& job : jobs_at(copies_[i], places[i]))
      if (job.form == CopyForm::tiles)
        launch_tiles(job, places[i], static_cast<cudaStream_t>(stream));
  for (int bytes = 1; bytes <= widest_word; bytes *= 2)
    visit_word(bytes, [&]<typename Word>(Word) {
      run_words<Word, Word>(places, stream);
      if constexpr (sizeof(Word) < widest_word) run_words<Word, uint4>(places, stream);
    });
}

}  // namespace autopar::runtime::cuda
