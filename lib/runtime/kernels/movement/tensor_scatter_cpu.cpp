#include <cstring>

#include "runtime/kernels/movement/indexing.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cpu {
namespace {

class TensorScatter final : public Kernel {
 public:
  explicit TensorScatter(const KernelRequest& request)
      : update_(cache_update(request)), node_(request.node.name) {}

  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    if (out.size_bytes() == 0) return;
    std::memcpy(out.data, io.inputs[0].data, static_cast<std::size_t>(out.size_bytes()));
    const std::byte* from = io.inputs[1].data;
    const auto bytes = static_cast<std::size_t>(update_.inner_bytes);
    for (std::int64_t outer = 0; outer < update_.outer; ++outer) {
      const std::int64_t first = first_place(io, outer / update_.outer_of_batch);
      for (std::int64_t i = 0; i < update_.updates; ++i, from += bytes) {
        const std::int64_t place = update_.circular ? (first + i) % update_.length : first + i;
        std::memcpy(out.data + (outer * update_.length + place) * update_.inner_bytes, from, bytes);
      }
    }
  }

 private:
  std::int64_t first_place(const KernelIo& io, std::int64_t batch) const {
    if (!update_.has_indices) return 0;
    const std::int64_t first = io.inputs[2].as<const std::int64_t>()[batch];
    if (first < 0 || (!update_.circular && first > update_.length - update_.updates))
      fail("node '{}': TensorScatter writes {} at {} of a cache of {}", node_, update_.updates,
           first, update_.length);
    return update_.circular ? first % update_.length : first;
  }

  CacheUpdate update_;
  std::string node_;
};

}  // namespace

std::unique_ptr<Kernel> make_tensor_scatter(const KernelRequest& request) {
  return std::make_unique<TensorScatter>(request);
}

}  // namespace autopar::runtime::cpu
