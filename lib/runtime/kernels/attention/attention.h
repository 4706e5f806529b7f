#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/device.h"
#include "runtime/kernels/common/host_device.h"

namespace autopar::runtime {

/// What an Attention node says, for all devices: ONNX's, or the compiler's (passes/passes.h).
/// Layouts have strides, in elements, of batch, head, row and column.
struct AttentionProblem {
  struct Layout {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t column = 0;

    /// The first element of a row.
    AUTOPAR_ELEMENTWISE std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t r) const {
      return b * batch + h * head + r * row;
    }
  };
  /// What the optional output of scores holds.
  enum class Scores { none, raw, capped, masked, probabilities };

  std::int64_t batches = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;  ///< divides heads
  std::int64_t queries = 1;
  std::int64_t keys = 1;  ///< of the past and of this step
  std::int64_t past = 0;
  std::int64_t depth = 1;        ///< of queries and keys
  std::int64_t value_depth = 1;  ///< of values and the result
  Layout q;
  Layout k;  ///< of this step's
  Layout v;
  Layout out;
  Layout mask;                 ///< of scores; 0 where it is broadcast
  std::int64_t mask_keys = 0;  ///< a mask that tells of fewer keys hides the others
  double scale = 1;
  float fill = 0;  ///< takes the place of what a boolean mask hides
  float softcap = 0;
  bool causal = false;
  std::int64_t left_window = -1;   ///< keys before a query's own position that it sees; -1: all
  std::int64_t right_window = -1;  ///< and behind it
  /// The place of the first query among the keys. Where there are `lengths`, it is a batch's length
  /// less the queries.
  std::int64_t first_position = 0;
  bool has_lengths = false;   ///< input 6 has the number of valid keys of each batch
  bool nan_to_zero = false;   ///< rows that come out as NaN are zeros
  bool none_is_zero = false;  ///< rows from which masks hide all keys are zeros
  Scores scores = Scores::none;
  /// Keys and values must be put together: there is a past, or the present is an output.
  bool has_cache = false;

  /// Throws Error for shapes that do not fit together.
  AttentionProblem(const graph::Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs);

  bool has_windows() const { return causal || left_window >= 0 || right_window >= 0; }

 private:
  void read_internal(const graph::Node& node);
  void read_onnx(const graph::Node& node, std::span<const TensorView> inputs,
                 std::span<const TensorView> outputs);
  void read_mask(const graph::Node& node, std::span<const TensorView> inputs);
};

/// Puts an Attention's past and this step's keys and values together, for all devices: in its
/// outputs, or in scratch memory where the node has none. Without a past or a present output they
/// stay where they are.
class AttentionCache {
 public:
  /// `problem.k` and `problem.v` become the layouts of what join() makes.
  AttentionCache(const KernelRequest& request, AttentionProblem& problem);

  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  struct Joined {
    TensorView keys;
    TensorView values;
  };
  Joined join(const KernelIo& io, std::byte* scratch) const;

 private:
  struct Side {
    Shape shape;
    std::unique_ptr<StridedCopy> past;
    std::unique_ptr<StridedCopy> present;
    std::int64_t past_elements = 0;  ///< of a head
    bool has_output = false;
  };
  /// Joins input 1, keys, or 2, values, with their past, the third input behind; their present is
  /// the output of that number.
  TensorView join(std::size_t input, const KernelIo& io, std::byte*& scratch) const;

  std::array<Side, 2> sides_;
  std::int64_t scratch_bytes_ = 0;
};

/// The keys that a query may see, as far as its position tells: [begin, end), perhaps empty.
struct VisibleKeys {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The keys that the query at `position` sees among `keys` valid ones.
AUTOPAR_ELEMENTWISE VisibleKeys visible_keys(bool causal, std::int64_t left, std::int64_t right,
                                             std::int64_t position, std::int64_t keys) {
  std::int64_t end = keys;
  if (causal && position + 1 < end) end = position + 1;
  if (right >= 0 && right < end - position - 1) end = position + right + 1;
  std::int64_t begin = left >= 0 && position > left ? position - left : 0;
  end = end < 0 ? 0 : end;
  begin = begin > end ? end : begin;
  return {begin, end};
}

}  // namespace autopar::runtime
