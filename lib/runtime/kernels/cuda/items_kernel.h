#pragma once

#include <cstdint>
#include <memory>

#include "runtime/kernels/common/items.h"
#include "runtime/kernels/cuda/launch.h"

namespace autopar::runtime::cuda {

template <typename Body>
__global__ void __launch_bounds__(unbounded_threads)
    run_items(const __grid_constant__ Body body, std::int64_t items) {
  const std::int64_t item = global_thread();
  if (item < items) body(item);
}

/// A thread an item.
template <ItemsBody Body>
class ItemsKernel final : public Kernel {
 public:
  explicit ItemsKernel(const Body& body) : body_(body) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_of(body_); }

  void run(const KernelIo& io) override {
    const std::int64_t items = body_.items();
    if (items == 0) return;
    body_.bind(io);
    launch(stream_of(io), a_thread_each(items), run_items<Body>, body_, items);
  }

 private:
  Body body_;
};

struct ItemsDevice {
  template <typename Body>
  static std::unique_ptr<Kernel> kernel(const KernelRequest&, const Body& body) {
    return std::make_unique<ItemsKernel<Body>>(body);
  }
};

}  // namespace autopar::runtime::cuda
