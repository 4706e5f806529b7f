#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/movement/indexing.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cuda {
namespace {

/// A word of the result, from the cache or, where the update lies there, from that.
template <typename Word>
__global__ void scatter(const Word* cache, const Word* updates, const std::int64_t* indices,
                        Word* out, const __grid_constant__ CacheUpdate of, std::int64_t inner) {
  const std::int64_t word = global_thread();
  if (word >= of.outer * of.length * inner) return;
  const std::int64_t column = word % inner;
  const std::int64_t place = word / inner % of.length;
  const std::int64_t outer = word / inner / of.length;
  const std::int64_t first = indices == nullptr ? 0 : indices[outer / of.outer_of_batch];
  std::int64_t update = place - first;
  if (of.circular) {
    update %= of.length;
    if (update < 0) update += of.length;
  }
  const bool is_new = update >= 0 && update < of.updates;
  out[word] = is_new ? updates[(outer * of.updates + update) * inner + column] : cache[word];
}

class TensorScatter final : public Kernel {
 public:
  explicit TensorScatter(const KernelRequest& request) : update_(cache_update(request)) {}

  void run(const KernelIo& io) override {
    if (io.outputs[0].size_bytes() == 0) return;
    const int bytes = word_bytes_of(update_.inner_bytes);
    visit_word(bytes, [&]<typename Word>(Word) {
      launch(stream_of(io), a_thread_each(io.outputs[0].size_bytes() / bytes), scatter<Word>,
             io.inputs[0].as<const Word>(), io.inputs[1].as<const Word>(),
             optional_data<const std::int64_t>(io.inputs, 2), io.outputs[0].as<Word>(), update_,
             update_.inner_bytes / bytes);
    });
  }

 private:
  CacheUpdate update_;
};

}  // namespace

std::unique_ptr<Kernel> make_tensor_scatter(const KernelRequest& request) {
  return std::make_unique<TensorScatter>(request);
}

}  // namespace autopar::runtime::cuda
