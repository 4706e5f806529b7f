#include "runtime/kernels/attention/attention_cache.h"

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

AttentionCache::AttentionCache(const KernelRequest& request, AttentionProblem& problem) {
  const auto side = [&](std::size_t input, std::size_t output, AttentionProblem::Layout& layout,
                        std::int64_t columns) {
    const int bytes = element_bytes_of(request, request.inputs[input]);
    const std::int64_t head = problem.keys * columns;
    const std::int64_t rows = problem.keys - problem.past;
    Side made;
    made.shape = {problem.batches, problem.key_heads, problem.keys, columns};
    made.has_output = has_output(request, output);
    made.past_elements = problem.past * columns;
    const std::vector<std::int64_t> to{problem.key_heads * head, head, columns, 1};
    made.present =
        request.device.make_strided_copy({problem.batches, problem.key_heads, rows, columns},
                                         {layout.batch, layout.head, layout.row, 1}, to, bytes);
    if (problem.past > 0)
      made.past = request.device.make_strided_copy(
          {problem.batches, problem.key_heads, problem.past, columns},
          {problem.key_heads * made.past_elements, made.past_elements, columns, 1}, to, bytes);
    if (!made.has_output) scratch_bytes_ += graph::aligned(graph::num_elements(made.shape) * bytes);
    layout = {to[0], to[1], to[2], 1};
    return made;
  };
  sides_ = {side(1, 1, problem.k, problem.depth), side(2, 2, problem.v, problem.value_depth)};
}

TensorView AttentionCache::join(const Side& side, const KernelIo& io, std::size_t input,
                                std::size_t past, std::size_t output, std::byte*& scratch) const {
  TensorView joined{io.inputs[input].type, side.shape, nullptr};
  joined.data = side.has_output ? io.outputs[output].data : scratch;
  if (!side.has_output) scratch += graph::aligned(joined.size_bytes());
  if (joined.elements() == 0) return joined;
  if (side.past) side.past->run(io.inputs[past].data, joined.data, io.stream);
  const std::int64_t element_bytes = joined.size_bytes() / joined.elements();
  side.present->run(io.inputs[input].data, joined.data + side.past_elements * element_bytes,
                    io.stream);
  return joined;
}

AttentionCache::Joined AttentionCache::join(const KernelIo& io, std::byte* scratch) const {
  const TensorView keys = join(sides_[0], io, 1, 4, 1, scratch);
  return {keys, join(sides_[1], io, 2, 5, 2, scratch)};
}

}  // namespace autopar::runtime
