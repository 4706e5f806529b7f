// Attention in every form and floating type: a block takes one query of one head and walks over the
// keys, one a thread at a time.

#include <limits>

#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/elementwise/math.h"

namespace autopar::runtime::cuda {
namespace {

using Scores = AttentionProblem::Scores;

constexpr unsigned threads = 128;

template <typename T>
struct Arguments : AttentionData<T> {
  const std::int64_t* lengths;  ///< [batches], the keys that are valid; may be null
  T* scores_out;                ///< [batches, heads, queries, keys]; may be null
};

struct Largest {
  template <typename W>
  __device__ W operator()(W x, W y) const {
    return x > y ? x : y;
  }
};

/// A key's score at each of its stages, and whether masks leave it.
template <typename W>
struct Score {
  W raw;
  W capped;
  W masked;
  bool is_left;
};

template <typename T>
__device__ Score<Widened<T>> score_of(const Arguments<T>& of, const Widened<T>* query, const T* k,
                                      std::int64_t mask_at, std::int64_t key, VisibleKeys visible) {
  using W = Widened<T>;
  constexpr W infinity = std::numeric_limits<W>::infinity();
  Score<W> score{};
  for (std::int64_t d = 0; d < of.problem.depth; ++d)
    score.raw += query[d] * widened(k[key * of.problem.k.row + d * of.problem.k.column]);
  score.raw *= static_cast<W>(of.problem.scale);
  const W softcap = of.problem.softcap;
  score.capped = softcap > W(0) ? softcap * math::tanh(score.raw / softcap) : score.raw;
  score.masked = score.capped;
  score.is_left = key >= visible.begin && key < visible.end;
  const std::int64_t at = mask_at + key * of.problem.mask.column;
  if (of.mask_kind != MaskKind::none && key >= of.problem.mask_keys) {
    score.is_left = false;
  } else if (score.is_left && of.mask_kind == MaskKind::boolean) {
    const bool keeps = static_cast<const std::uint8_t*>(of.mask)[at] != 0;
    if (!keeps) score.masked = of.problem.fill;
    score.is_left = keeps || of.problem.fill != -infinity;
  } else if (score.is_left && of.mask_kind != MaskKind::none) {
    const W added = of.mask_kind == MaskKind::float32
                        ? static_cast<W>(static_cast<const float*>(of.mask)[at])
                        : static_cast<W>(widened(static_cast<const T*>(of.mask)[at]));
    score.masked += added;
    score.is_left = added != -infinity;
    if (!score.is_left) return score;  // infinite or not a number, as the sum is
  }
  if (!score.is_left) score.masked = -infinity;
  return score;
}

/// The keys that a query may see, as far as its position tells.
template <typename T>
__device__ VisibleKeys keys_of(const Arguments<T>& of, std::int64_t batch, std::int64_t query) {
  const AttentionProblem& p = of.problem;
  std::int64_t length = of.lengths == nullptr ? p.keys : of.lengths[batch];
  length = length < 0 ? 0 : (length > p.keys ? p.keys : length);
  const std::int64_t first = of.lengths == nullptr ? p.first_position : length - p.queries;
  return visible_keys(p.causal, p.left_window, p.right_window, first + query, length);
}

/// Column `e` of `count` values from `v` on, mixed. What nobody sees does not count, be it no
/// number.
template <typename T>
__device__ Widened<T> mixed_values(const Arguments<T>& of, const T* v, const Widened<T>* shares,
                                   std::int64_t count, std::int64_t e) {
  Widened<T> mixed(0);
  for (std::int64_t t = 0; t < count; ++t)
    if (shares[t] != Widened<T>(0))
      mixed += shares[t] * widened(v[t * of.problem.v.row + e * of.problem.v.column]);
  return mixed;
}

template <typename T>
__global__ void __launch_bounds__(threads) attend_plainly(const Arguments<T> of) {
  using W = Widened<T>;
  constexpr W infinity = std::numeric_limits<W>::infinity();
  W* const query = reinterpret_cast<W*>(dynamic_shared());
  W* const result = query + of.problem.depth;
  W* const shares = result + of.problem.value_depth;
  const std::int64_t block = blockIdx.x;
  const std::int64_t i = block % of.problem.queries;
  const std::int64_t head = block / of.problem.queries % of.problem.heads;
  const std::int64_t batch = block / of.problem.queries / of.problem.heads;
  const std::int64_t key_head = head / (of.problem.heads / of.problem.key_heads);
  const int thread = static_cast<int>(threadIdx.x);

  const T* const q = of.q + of.problem.q.at(batch, head, i);
  const T* const k = of.k + of.problem.k.at(batch, key_head, 0);
  const T* const v = of.v + of.problem.v.at(batch, key_head, 0);
  const std::int64_t mask_at = of.problem.mask.at(batch, head, i);
  for (std::int64_t d = thread; d < of.problem.depth; d += threads)
    query[d] = widened(q[d * of.problem.q.column]);
  for (std::int64_t e = thread; e < of.problem.value_depth; e += threads) result[e] = W(0);
  const VisibleKeys visible = keys_of(of, batch, i);
  const bool wants_scores = of.problem.scores != Scores::none;
  const std::int64_t begin = wants_scores ? 0 : visible.begin;
  const std::int64_t end = wants_scores ? of.problem.keys : visible.end;
  T* const scores_out =
      wants_scores ? of.scores_out + ((batch * of.problem.heads + head) * of.problem.queries + i) *
                                         of.problem.keys
                   : nullptr;
  __syncthreads();

  W largest = -infinity;
  W sum = W(0);
  W is_any_left = W(0);
  for (std::int64_t first = begin; first < end; first += threads) {
    const std::int64_t key = first + thread;
    Score<W> score{W(0), W(0), -infinity, false};
    if (key < end) {
      score = score_of(of, query, k, mask_at, key, visible);
      if (of.problem.scores == Scores::raw) scores_out[key] = narrowed<T>(score.raw);
      if (of.problem.scores == Scores::capped) scores_out[key] = narrowed<T>(score.capped);
      if (of.problem.scores == Scores::masked) scores_out[key] = narrowed<T>(score.masked);
    }
    if (score.is_left) is_any_left = W(1);
    const W now = Largest{}(largest, reduce_block(score.masked, -infinity, Largest{}));
    const W shift = now == -infinity ? W(0) : now;
    const W shrink = largest == -infinity ? W(0) : math::exp(largest - shift);
    largest = now;
    const W share = score.masked == -infinity ? W(0) : math::exp(score.masked - shift);
    shares[thread] = share;
    sum = sum * shrink + reduce_block(share, W(0), Plus{});  // all shares are written
    const std::int64_t count = end - first < threads ? end - first : threads;
    for (std::int64_t e = thread; e < of.problem.value_depth; e += threads)
      result[e] =
          result[e] * shrink + mixed_values(of, v + first * of.problem.v.row, shares, count, e);
    __syncthreads();
  }

  is_any_left = reduce_block(is_any_left, W(0), Largest{});
  const bool is_nothing =
      (of.problem.nan_to_zero && !(sum > W(0))) || (of.problem.none_is_zero && is_any_left == W(0));
  T* const out = of.out + of.problem.out.at(batch, head, i);
  for (std::int64_t e = thread; e < of.problem.value_depth; e += threads)
    out[e * of.problem.out.column] = narrowed<T>(is_nothing ? W(0) : result[e] / sum);
  if (of.problem.scores != Scores::probabilities) return;
  const W shift = largest == -infinity ? W(0) : largest;
  for (std::int64_t key = thread; key < of.problem.keys; key += threads) {
    const W masked = score_of(of, query, k, mask_at, key, visible).masked;
    const W share = masked == -infinity ? W(0) : math::exp(masked - shift);
    scores_out[key] = narrowed<T>(is_nothing ? W(0) : share / sum);
  }
}

template <typename T>
std::unique_ptr<Kernel> make_plain(const KernelRequest& request) {
  AttentionProblem problem(request.node, request.inputs, request.outputs);
  AttentionCache cache(request, problem);
  const DataType type = request.inputs.at(0).type;
  for (const std::size_t i : {1U, 2U})
    if (request.inputs.at(i).type != type)
      fail(
          "node '{}': Attention has no CUDA kernel for keys or values of another type than queries",
          request.node.name);
  const std::size_t shared_bytes =
      sizeof(Widened<T>) * static_cast<std::size_t>(problem.depth + problem.value_depth + threads);
  constexpr std::size_t most_shared_bytes = 48 * 1024;
  const std::int64_t blocks = problem.batches * problem.heads * problem.queries;
  if (shared_bytes > most_shared_bytes || blocks > std::numeric_limits<int>::max())
    fail("node '{}': Attention of {} queries and heads of {} and {} elements has no CUDA kernel",
         request.node.name, blocks, problem.depth, problem.value_depth);
  if (is_given(request.inputs, 3)) {
    const DataType mask = request.inputs[3].type;
    if (mask != DataType::boolean && mask != DataType::float32 && mask != type)
      fail_type(request, mask);
  }
  const std::int64_t scratch_bytes = cache.scratch_bytes();
  auto run = [problem, shared_bytes, blocks, cache = std::move(cache)](const KernelIo& io) {
    const AttentionData<T> data(problem, cache, io);
    if (blocks == 0) return;
    const bool wants_scores = problem.scores != Scores::none;
    const Arguments<T> arguments{
        data, problem.has_lengths ? io.inputs[6].as<const std::int64_t>() : nullptr,
        wants_scores ? io.outputs[3].as<T>() : nullptr};
    launch(stream_of(io), {dim3(static_cast<unsigned>(blocks)), dim3(threads), shared_bytes},
           attend_plainly<T>, arguments);
  };
  return make_kernel(std::move(run), scratch_bytes);
}

}  // namespace

std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{},
                         [&]<typename T>(T) { return make_plain<T>(request); });
}

}  // namespace autopar::runtime::cuda
