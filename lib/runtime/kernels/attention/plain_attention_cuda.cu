// Attention in every form and floating type: a block takes one query of one head and walks over the
// keys, one a thread at a time.

#include <limits>

#include "base/error.h"
#include "runtime/kernels/attention/attention_cache.h"
#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/elementwise/math.h"

namespace autopar::runtime::cuda {
namespace {

using Layout = AttentionProblem::Layout;
using Scores = AttentionProblem::Scores;

constexpr unsigned threads = 128;

enum class MaskKind { none, boolean, float32, same };

template <typename T>
struct Arguments {
  const T* q;        ///< [batches, heads, queries, depth], by q_layout
  const T* k;        ///< [batches, heads / heads_a_key_head, keys, depth], by k_layout
  const T* v;        ///< [batches, heads / heads_a_key_head, keys, value_depth], by v_layout
  T* out;            ///< [batches, heads, queries, value_depth], by out_layout
  const void* mask;  ///< [batches, heads, queries, mask_keys], by mask_layout; may be null
  const std::int64_t* lengths;  ///< [batches], the keys that are valid; may be null
  T* scores_out;                ///< [batches, heads, queries, keys]; may be null
  MaskKind mask_kind;
  Layout q_layout, k_layout, v_layout, out_layout, mask_layout;
  std::int64_t heads, heads_a_key_head, queries, keys, mask_keys, depth, value_depth;
  std::int64_t first_position, left_window, right_window;
  Compute<T> scale, fill, softcap;
  Scores scores;
  bool causal, nan_to_zero, none_is_zero;
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
__device__ Score<Compute<T>> score_of(const Arguments<T>& of, const Compute<T>* query, const T* k,
                                      std::int64_t mask_at, std::int64_t key, VisibleKeys visible) {
  using W = Compute<T>;
  constexpr W infinity = std::numeric_limits<W>::infinity();
  Score<W> score{};
  for (std::int64_t d = 0; d < of.depth; ++d)
    score.raw += query[d] * widened(k[key * of.k_layout.row + d * of.k_layout.column]);
  score.raw *= of.scale;
  score.capped = of.softcap > W(0) ? of.softcap * math::tanh(score.raw / of.softcap) : score.raw;
  score.masked = score.capped;
  score.is_left = key >= visible.begin && key < visible.end;
  const std::int64_t at = mask_at + key * of.mask_layout.column;
  if (of.mask_kind != MaskKind::none && key >= of.mask_keys) {
    score.is_left = false;
  } else if (score.is_left && of.mask_kind == MaskKind::boolean) {
    const bool keeps = static_cast<const std::uint8_t*>(of.mask)[at] != 0;
    if (!keeps) score.masked = of.fill;
    score.is_left = keeps || of.fill != -infinity;
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

template <typename T>
__global__ void __launch_bounds__(threads) attend_plainly(const Arguments<T> of) {
  using W = Compute<T>;
  constexpr W infinity = std::numeric_limits<W>::infinity();
  W* const query = reinterpret_cast<W*>(dynamic_shared());
  W* const result = query + of.depth;
  W* const shares = result + of.value_depth;
  const std::int64_t block = blockIdx.x;
  const std::int64_t i = block % of.queries;
  const std::int64_t head = block / of.queries % of.heads;
  const std::int64_t batch = block / of.queries / of.heads;
  const std::int64_t key_head = head / of.heads_a_key_head;
  const int thread = static_cast<int>(threadIdx.x);

  const T* const q =
      of.q + batch * of.q_layout.batch + head * of.q_layout.head + i * of.q_layout.row;
  const T* const k = of.k + batch * of.k_layout.batch + key_head * of.k_layout.head;
  const T* const v = of.v + batch * of.v_layout.batch + key_head * of.v_layout.head;
  const std::int64_t mask_at =
      batch * of.mask_layout.batch + head * of.mask_layout.head + i * of.mask_layout.row;
  for (std::int64_t d = thread; d < of.depth; d += threads)
    query[d] = widened(q[d * of.q_layout.column]);
  for (std::int64_t e = thread; e < of.value_depth; e += threads) result[e] = W(0);
  std::int64_t length = of.lengths == nullptr ? of.keys : of.lengths[batch];
  length = length < 0 ? 0 : (length > of.keys ? of.keys : length);
  const std::int64_t position =
      i + (of.lengths == nullptr ? of.first_position : length - of.queries);
  const VisibleKeys visible =
      visible_keys(of.causal, of.left_window, of.right_window, position, length);
  const bool wants_scores = of.scores != Scores::none;
  const std::int64_t begin = wants_scores ? 0 : visible.begin;
  const std::int64_t end = wants_scores ? of.keys : visible.end;
  T* const scores_out = wants_scores
                            ? of.scores_out + ((batch * of.heads + head) * of.queries + i) * of.keys
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
      if (of.scores == Scores::raw) scores_out[key] = narrowed<T>(score.raw);
      if (of.scores == Scores::capped) scores_out[key] = narrowed<T>(score.capped);
      if (of.scores == Scores::masked) scores_out[key] = narrowed<T>(score.masked);
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
    for (std::int64_t e = thread; e < of.value_depth; e += threads) {
      W mixed = W(0);
      for (std::int64_t t = 0; t < count; ++t) {
        // What nobody sees does not count, be it no number.
        if (shares[t] != W(0))
          mixed += shares[t] * widened(v[(first + t) * of.v_layout.row + e * of.v_layout.column]);
      }
      result[e] = result[e] * shrink + mixed;
    }
    __syncthreads();
  }

  is_any_left = reduce_block(is_any_left, W(0), Largest{});
  const bool is_nothing =
      (of.nan_to_zero && !(sum > W(0))) || (of.none_is_zero && is_any_left == W(0));
  T* const out =
      of.out + batch * of.out_layout.batch + head * of.out_layout.head + i * of.out_layout.row;
  for (std::int64_t e = thread; e < of.value_depth; e += threads)
    out[e * of.out_layout.column] = narrowed<T>(is_nothing ? W(0) : result[e] / sum);
  if (of.scores != Scores::probabilities) return;
  const W shift = largest == -infinity ? W(0) : largest;
  for (std::int64_t key = thread; key < of.keys; key += threads) {
    const W masked = score_of(of, query, k, mask_at, key, visible).masked;
    const W share = masked == -infinity ? W(0) : math::exp(masked - shift);
    scores_out[key] = narrowed<T>(is_nothing ? W(0) : share / sum);
  }
}

template <typename T>
class PlainAttention final : public Kernel {
 public:
  explicit PlainAttention(const KernelRequest& request)
      : problem_(request.node, request.inputs, request.outputs) {
    for (const std::size_t i : {1U, 2U})
      if (request.inputs.at(i).type != request.inputs[0].type)
        fail(
            "node '{}': Attention has no CUDA kernel for keys or values of another type than "
            "queries",
            request.node.name);
    if (problem_.has_cache) cache_ = AttentionCache(request, problem_);
    shared_bytes_ = sizeof(Compute<T>) *
                    static_cast<std::size_t>(problem_.depth + problem_.value_depth + threads);
    constexpr std::size_t most_shared_bytes = 48 * 1024;
    blocks_ = problem_.batches * problem_.heads * problem_.queries;
    if (shared_bytes_ > most_shared_bytes || blocks_ > std::numeric_limits<int>::max())
      fail("node '{}': Attention of {} queries and heads of {} and {} elements has no CUDA kernel",
           request.node.name, blocks_, problem_.depth, problem_.value_depth);
    if (request.inputs.size() > 3 && request.inputs[3].present())
      mask_kind_ = mask_kind(request, request.inputs[3].type);
  }

  std::int64_t scratch_bytes() const override { return cache_.scratch_bytes(); }

  void run(const KernelIo& io) override {
    AttentionCache::Joined joined{io.inputs[1], io.inputs[2]};
    if (problem_.has_cache) joined = cache_.join(io, io.scratch);
    if (blocks_ == 0) return;
    using W = Compute<T>;
    const AttentionProblem& p = problem_;
    const bool wants_scores = p.scores != Scores::none;
    const Arguments<T> arguments{
        .q = io.inputs[0].as<const T>(),
        .k = joined.keys.as<const T>(),
        .v = joined.values.as<const T>(),
        .out = io.outputs[0].as<T>(),
        .mask = mask_kind_ == MaskKind::none ? nullptr : io.inputs[3].data,
        .lengths = p.has_lengths ? io.inputs[6].as<const std::int64_t>() : nullptr,
        .scores_out = wants_scores ? io.outputs[3].as<T>() : nullptr,
        .mask_kind = mask_kind_,
        .q_layout = p.q,
        .k_layout = p.k,
        .v_layout = p.v,
        .out_layout = p.out,
        .mask_layout = p.mask,
        .heads = p.heads,
        .heads_a_key_head = p.heads / p.key_heads,
        .queries = p.queries,
        .keys = p.keys,
        .mask_keys = p.mask_keys,
        .depth = p.depth,
        .value_depth = p.value_depth,
        .first_position = p.first_position,
        .left_window = p.left_window,
        .right_window = p.right_window,
        .scale = static_cast<W>(p.scale),
        .fill = static_cast<W>(p.fill),
        .softcap = static_cast<W>(p.softcap),
        .scores = p.scores,
        .causal = p.causal,
        .nan_to_zero = p.nan_to_zero,
        .none_is_zero = p.none_is_zero};
    launch(stream_of(io), {dim3(static_cast<unsigned>(blocks_)), dim3(threads), shared_bytes_},
           attend_plainly<T>, arguments);
  }

 private:
  static MaskKind mask_kind(const KernelRequest& request, DataType type) {
    if (type == DataType::boolean) return MaskKind::boolean;
    if (type == request.inputs[0].type) return MaskKind::same;
    if (type != DataType::float32) fail_type(request, type);
    return MaskKind::float32;
  }

  AttentionProblem problem_;
  AttentionCache cache_;
  MaskKind mask_kind_ = MaskKind::none;
  std::int64_t blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{},
                  [&]<typename T>(T) { kernel = std::make_unique<PlainAttention<T>>(request); }))
    fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime::cuda
