// Attention block by block: scores of some queries of one head, their softmax and its product with
// the values while they lie in the cache. Products are oneDNN's, but for small ones, one a thread.

#include <omp.h>

#include <algorithm>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/device.h"
#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/normalization/softmax_row.h"
#include "runtime/kernels/product/small_product.h"

namespace autopar::runtime::cpu {
namespace {

using Layout = AttentionProblem::Layout;
using Scores = AttentionProblem::Scores;

/// Rows that lie `stride` apart.
template <typename T>
struct Matrix {
  T* data = nullptr;
  std::int64_t stride = 0;
};
template <typename T>
Matrix(T* data, std::int64_t stride) -> Matrix<T>;  // Clang needs it before version 17

void check(dnnl::status status) {
  require(status == dnnl::status::success, "oneDNN multiplies matrices of floats");
}

template <typename T>
void fill_rows(Matrix<T> out, std::int64_t rows, std::int64_t columns, T value) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(out.data + i * out.stride, columns, value);
}

/// Extents of a product: its result's rows and columns, and what each element sums over.
struct Extents {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

/// out = scale a b^T.
void multiply_transposed(Matrix<const float> a, Matrix<const float> b, Matrix<float> out,
                         const Extents& of, float scale) {
  if (of.depth == 0) return fill_rows(out, of.rows, of.columns, 0.0F);
  if (is_small_matrix(of.depth, of.columns))
    return multiply_small({.rows = of.rows,
                           .columns = of.columns,
                           .depth = of.depth,
                           .scale = scale,
                           .a = a.data,
                           .a_stride = a.stride,
                           .b = b.data,
                           .b_row_stride = 1,
                           .b_column_stride = b.stride,
                           .out = out.data,
                           .out_stride = out.stride});
  check(dnnl::sgemm('N', 'T', of.rows, of.columns, of.depth, scale, a.data, a.stride, b.data,
                    b.stride, 0, out.data, out.stride));
}
void multiply_transposed(Matrix<const double> a, Matrix<const double> b, Matrix<double> out,
                         const Extents& of, double scale) {
  for (std::int64_t i = 0; i < of.rows; ++i) {
    for (std::int64_t j = 0; j < of.columns; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < of.depth; ++d)
        sum += a.data[i * a.stride + d] * b.data[j * b.stride + d];
      out.data[i * out.stride + j] = scale * sum;
    }
  }
}

/// out = a b.
void multiply(Matrix<const float> a, Matrix<const float> b, Matrix<float> out, const Extents& of) {
  if (is_small_matrix(of.depth, of.columns))
    return multiply_small({.rows = of.rows,
                           .columns = of.columns,
                           .depth = of.depth,
                           .a = a.data,
                           .a_stride = a.stride,
                           .b = b.data,
                           .b_row_stride = b.stride,
                           .b_column_stride = 1,
                           .out = out.data,
                           .out_stride = out.stride});
  check(dnnl::sgemm('N', 'N', of.rows, of.columns, of.depth, 1, a.data, a.stride, b.data, b.stride,
                    0, out.data, out.stride));
}
void multiply(Matrix<const double> a, Matrix<const double> b, Matrix<double> out,
              const Extents& of) {
  fill_rows(out, of.rows, of.columns, 0.0);
  for (std::int64_t i = 0; i < of.rows; ++i)
    for (std::int64_t d = 0; d < of.depth; ++d)
      for (std::int64_t j = 0; j < of.columns; ++j)
        out.data[i * out.stride + j] += a.data[i * a.stride + d] * b.data[d * b.stride + j];
}

/// Rows of scores are computed block by block.
struct BlockSizes {
  bool joins_heads = false;  ///< one query a head: the heads that share keys are a product's rows
  std::int64_t rows = 1;     ///< of a product
  std::int64_t block = 1;    ///< rows of a block

  explicit BlockSizes(const AttentionProblem& problem) : joins_heads(problem.queries == 1) {
    // Scores of a block, in floats: half of a core's second-level cache.
    constexpr std::int64_t block_scores = std::int64_t{1} << 16;
    rows = joins_heads ? problem.heads / problem.key_heads : problem.queries;
    const std::int64_t fitting = block_scores / std::max<std::int64_t>(1, problem.keys);
    block = std::clamp<std::int64_t>(fitting, 16, problem.has_windows() ? 64 : 128);
    block = std::max<std::int64_t>(1, std::min(block, rows));
  }
};

/// The tensors of a run as they are computed with.
template <typename T>
struct Operands {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* out = nullptr;
  const TensorView* mask = nullptr;
  const std::int64_t* lengths = nullptr;
  T* scores_out = nullptr;
};

/// The blocks of a run.
template <typename T>
struct Blocks {
  const AttentionProblem& problem;
  const BlockSizes& sizes;
  Operands<T> of;

  std::int64_t heads() const { return sizes.joins_heads ? problem.key_heads : problem.heads; }
  std::int64_t count() const {
    return problem.batches * heads() * ((sizes.rows + sizes.block - 1) / sizes.block);
  }
  /// Products of numbers.
  std::int64_t work() const {
    return problem.batches * problem.heads * problem.queries * problem.keys *
           (problem.depth + problem.value_depth);
  }

  /// `scores` has room for those of a block.
  void run(std::int64_t block, T* scores) const {
    const std::int64_t head = block % heads();
    const std::int64_t row = block / (problem.batches * heads()) * sizes.block;
    const std::int64_t rows = std::min(sizes.block, sizes.rows - row);
    const std::int64_t group = problem.heads / problem.key_heads;
    const std::int64_t key_head = sizes.joins_heads ? head : head / group;
    const Place first = place(head, row);
    const Place last = place(head, row + rows - 1);
    Keys keys{.batch = block / heads() % problem.batches,
              .valid = problem.keys,
              .first_position = problem.first_position};
    if (of.lengths != nullptr) {
      keys.valid = of.lengths[keys.batch];
      keys.first_position = keys.valid - problem.queries;
    }
    // All keys that some row sees; all there are where their scores are wanted.
    keys.seen = {visible(first, keys).begin, visible(last, keys).end};
    if (of.scores_out != nullptr) keys.seen = {0, problem.keys};
    const std::int64_t n = std::max<std::int64_t>(0, keys.seen.end - keys.seen.begin);
    const auto rows_of_block = [&](auto* data, const Layout& layout) {
      return Matrix{data + layout.at(keys.batch, first.head, first.query),
                    sizes.joins_heads ? layout.head : layout.row};
    };
    const auto rows_of_keys = [&](const T* data, const Layout& layout) {
      return Matrix{data + layout.at(keys.batch, key_head, keys.seen.begin), layout.row};
    };
    if (n > 0)
      multiply_transposed(rows_of_block(of.q, problem.q), rows_of_keys(of.k, problem.k),
                          Matrix{scores, n}, {rows, n, problem.depth},
                          static_cast<T>(problem.scale));
    for (std::int64_t r = 0; r < rows; ++r) soften(place(head, row + r), keys, scores + r * n);

    const std::int64_t columns = problem.value_depth;
    const Matrix<T> out = rows_of_block(of.out, problem.out);
    if (columns == 0) return;
    if (n == 0) return fill_rows(out, rows, columns, nothing());
    multiply(Matrix<const T>{scores, n}, rows_of_keys(of.v, problem.v), out, {rows, columns, n});
  }

 private:
  /// Where a row of the block lies: one of several queries of a head, or one head's only query.
  struct Place {
    std::int64_t head = 0;
    std::int64_t query = 0;
  };
  Place place(std::int64_t head, std::int64_t row) const {
    if (!sizes.joins_heads) return {head, row};
    return {head * (problem.heads / problem.key_heads) + row, 0};
  }

  /// A batch's keys: how many are valid, where its queries are among them, and which ones a block
  /// sees.
  struct Keys {
    std::int64_t batch = 0;
    std::int64_t valid = 0;
    std::int64_t first_position = 0;
    VisibleKeys seen = {};
  };
  VisibleKeys visible(Place at, const Keys& keys) const {
    return visible_keys(problem.causal, problem.left_window, problem.right_window,
                        keys.first_position + at.query, keys.valid);
  }

  /// The result of a row that sees no key.
  T nothing() const {
    return problem.none_is_zero || problem.nan_to_zero ? T{0} : std::numeric_limits<T>::quiet_NaN();
  }

  /// Makes probabilities of a row of scores, which are those of the keys that the block sees.
  void soften(Place at, const Keys& keys, T* scores) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const std::int64_t n = keys.seen.end - keys.seen.begin;
    if (n <= 0) return;
    const auto keep = [&](Scores kind) {
      const std::int64_t row = (keys.batch * problem.heads + at.head) * problem.queries + at.query;
      if (problem.scores == kind) std::copy_n(scores, n, of.scores_out + row * problem.keys);
    };
    keep(Scores::raw);
    if (problem.softcap > 0) cap_scores(scores, n, static_cast<T>(problem.softcap));
    keep(Scores::capped);
    VisibleKeys own = visible(at, keys);
    if (of.mask != nullptr) own.end = std::min(own.end, problem.mask_keys);
    // A mask may end before the first key that the block sees.
    own.end = std::clamp(own.end, keys.seen.begin, keys.seen.end);
    own.begin = std::clamp(own.begin, keys.seen.begin, own.end);
    T* const first = scores + (own.begin - keys.seen.begin);
    const std::int64_t count = own.end - own.begin;
    const MaskRow mask = mask_row(keys.batch, at, own.begin);
    if (mask.data != nullptr) mask_scores(first, count, mask, static_cast<T>(problem.fill));
    std::fill(scores, first, -infinity);
    std::fill(first + count, scores + n, -infinity);
    keep(Scores::masked);
    const T sum = exponentials(first, count);
    const bool is_number = sum > 0;
    if (is_number) {
      std::fill(scores, first, T{0});
      std::fill(first + count, scores + n, T{0});
      scale_row(first, count, 1 / sum);
    } else {
      const bool is_zero = problem.nan_to_zero || (problem.none_is_zero && hides_all(mask, count));
      std::fill_n(scores, n, is_zero ? T{0} : std::numeric_limits<T>::quiet_NaN());
    }
    keep(Scores::probabilities);
  }

  MaskRow mask_row(std::int64_t batch, Place at, std::int64_t key) const {
    if (of.mask == nullptr) return {};
    const Layout& layout = problem.mask;
    const std::int64_t element = layout.at(batch, at.head, at.query) + key * layout.column;
    return {of.mask->data + element * graph::bytes_of(of.mask->type, 1), of.mask->type,
            layout.column};
  }

  /// Whether the mask alone leaves nothing of these keys.
  bool hides_all(const MaskRow& mask, std::int64_t count) const {
    if (count == 0) return true;
    if (mask.data == nullptr) return false;
    std::vector<T> bias(static_cast<std::size_t>(count), T{0});
    mask_scores(bias.data(), count, mask, static_cast<T>(problem.fill));
    return std::ranges::all_of(bias, [](T x) { return x == -std::numeric_limits<T>::infinity(); });
  }
};

/// `memory` has `thread_bytes` for the scores of each thread.
template <typename T>
void run_blocks(const Blocks<T>& blocks, std::int64_t threads, std::byte* memory,
                std::int64_t thread_bytes) {
  constexpr std::int64_t least_work = 1 << 16;  // products that are worth waking a thread for
  const std::int64_t count = blocks.count();
  in_threads(count > 1 && blocks.work() > least_work ? threads : 1, [&] {
    T* const scores = reinterpret_cast<T*>(memory + omp_get_thread_num() * thread_bytes);
    // The last queries see most keys, so they begin.
#pragma omp for schedule(dynamic)
    for (std::int64_t block = count - 1; block >= 0; --block) blocks.run(block, scores);
  });
}

const std::int64_t* checked_lengths(const TensorView& view, std::int64_t keys,
                                    const std::string& node) {
  const auto* lengths = view.as<const std::int64_t>();
  for (std::int64_t b = 0; b < view.elements(); ++b)
    if (lengths[b] < 0 || lengths[b] > keys)
      fail("node '{}': nonpad_kv_seqlen of batch {} is {}, of {} keys", node, b, lengths[b], keys);
  return lengths;
}

template <typename T>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  AttentionProblem problem(request.node, request.inputs, request.outputs);
  AttentionCache cache(request, problem);
  const BlockSizes sizes(problem);
  const std::int64_t threads = request.device.threads();
  const auto joined_bytes = [&](std::int64_t columns) {
    return graph::aligned(problem.batches * problem.key_heads * problem.keys * columns * 4);
  };
  // Where the memory of threads begins, behind what is joined and converted.
  std::int64_t own_at = cache.scratch_bytes() + float_bytes(request);
  if (problem.has_cache && is_half(request.inputs[0].type))
    own_at += joined_bytes(problem.depth) + joined_bytes(problem.value_depth);
  const std::int64_t thread_bytes =
      graph::aligned(sizes.block * problem.keys * static_cast<std::int64_t>(sizeof(T)));
  auto run = [=, node = request.node.name, cache = std::move(cache)](const KernelIo& io) {
    const AttentionCache::Joined joined = cache.join(io, io.scratch);
    FloatCopies copies(io.scratch + cache.scratch_bytes());
    const auto target = [&](const TensorView& view) -> T* {
      if constexpr (std::is_same_v<T, float>)
        return copies.target(view);
      else
        return view.as<T>();
    };
    const auto load = [&](const TensorView& view) -> const T* {
      if constexpr (std::is_same_v<T, float>)
        return copies.load(view);
      else
        return view.as<const T>();
    };
    Operands<T> of;
    of.q = load(io.inputs[0]);
    of.k = load(joined.keys);
    of.v = load(joined.values);
    of.out = target(io.outputs[0]);
    if (is_given(io.inputs, 3)) of.mask = &io.inputs[3];
    if (problem.has_lengths) of.lengths = checked_lengths(io.inputs[6], problem.keys, node);
    const bool has_scores = problem.scores != Scores::none;
    if (has_scores) of.scores_out = target(io.outputs[3]);
    if (io.outputs[0].elements() > 0 || has_scores)
      run_blocks<T>({problem, sizes, of}, threads, io.scratch + own_at, thread_bytes);
    if constexpr (std::is_same_v<T, float>) {
      FloatCopies::store(of.out, io.outputs[0]);
      if (has_scores) FloatCopies::store(of.scores_out, io.outputs[3]);
    }
  };
  return make_kernel(std::move(run), own_at + threads * thread_bytes);
}

bool has_mask_type(DataType type) {
  return type == DataType::boolean || graph::is_floating_point(type);
}

}  // namespace

bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) {
  const DataType type = inputs[0].type;
  if (type != DataType::float32 && !is_half(type)) return false;
  const AttentionProblem problem(node, inputs, outputs);
  const auto has_rows = [](const Layout& layout, std::int64_t columns) {
    return layout.column == 1 && layout.row >= columns && layout.head >= columns;
  };
  return has_rows(problem.q, problem.depth) && has_rows(problem.k, problem.depth) &&
         has_rows(problem.v, problem.value_depth) && has_rows(problem.out, problem.value_depth);
}

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  for (const std::size_t i : {1U, 2U})
    if (request.inputs.at(i).type != type)
      fail("node '{}': Attention of {} queries has no CPU kernel for keys or values of {}",
           request.node.name, name_of(type), name_of(request.inputs[i].type));
  if (is_given(request.inputs, 3) && !has_mask_type(request.inputs[3].type))
    fail_type(request, request.inputs[3].type);
  if (type == DataType::float64) return make<double>(request);
  if (type != DataType::float32 && !is_half(type)) fail_type(request, type);
  return make<float>(request);
}

}  // namespace autopar::runtime::cpu
