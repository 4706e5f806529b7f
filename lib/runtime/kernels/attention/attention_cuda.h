#pragma once

#include <memory>

#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime::cuda {

enum class MaskKind { none, boolean, float32, same };

/// Where the tensors of a run lie, by the problem's layouts.
template <typename T>
struct AttentionData {
  const T* q;        ///< [batches, heads, queries, depth]
  const T* k;        ///< [batches, key_heads, keys, depth]
  const T* v;        ///< [batches, key_heads, keys, value_depth]
  T* out;            ///< [batches, heads, queries, value_depth]
  const void* mask;  ///< [batches, heads, queries, mask_keys]; may be null
  MaskKind mask_kind;
  AttentionProblem problem;

  /// `cache` was made with the problem.
  AttentionData(const AttentionProblem& of, const AttentionCache& cache, const KernelIo& io)
      : q(io.inputs[0].as<const T>()), out(io.outputs[0].as<T>()), problem(of) {
    const auto [keys, values] = cache.join(io, io.scratch);
    k = keys.template as<const T>();
    v = values.template as<const T>();
    const bool is_masked = is_given(io.inputs, 3);
    const DataType type = is_masked ? io.inputs[3].type : DataType::undefined;
    mask = is_masked ? io.inputs[3].data : nullptr;
    mask_kind = !is_masked                  ? MaskKind::none
                : type == DataType::boolean ? MaskKind::boolean
                : type == io.inputs[0].type ? MaskKind::same
                                            : MaskKind::float32;
  }
};

/// Attention of every form and floating type: a block of threads a query.
std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
