#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "runtime/device.h"
#include "runtime/kernels/common/items.h"
#include "runtime/kernels/cpu/block_function.h"

namespace autopar::runtime::cpu {

namespace detail {

template <typename Body>
using ItemsRun = void (*)(const Body& body, std::int64_t begin, std::int64_t end);

template <typename Body>
[[gnu::always_inline]] inline void run_items(const Body& body, std::int64_t begin,
                                             std::int64_t end) {
  for (std::int64_t item = begin; item < end; ++item) body(item);
}
template <typename Body>
void run_items_baseline(const Body& body, std::int64_t begin, std::int64_t end) {
  run_items(body, begin, end);
}
#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2,fma,bmi,bmi2")]] void run_items_avx2(const Body& body, std::int64_t begin,
                                                         std::int64_t end) {
  run_items(body, begin, end);
}
template <typename Body>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2")]] void
run_items_avx512(const Body& body, std::int64_t begin, std::int64_t end) {
  run_items(body, begin, end);
}
#endif

/// Bodies whose items are loops that vectorise say so, and are compiled for several instruction
/// sets.
template <typename Body>
ItemsRun<Body> items_run() {
#if defined(__x86_64__)
  if constexpr (requires { requires Body::vectorises; }) {
    if (simd_level() == SimdLevel::avx512) return run_items_avx512<Body>;
    if (simd_level() == SimdLevel::avx2) return run_items_avx2<Body>;
  }
#endif
  return run_items_baseline<Body>;
}

}  // namespace detail

template <ItemsBody Body>
class ItemsKernel final : public Kernel {
 public:
  ItemsKernel(const Body& body, int threads) : body_(body), threads_(threads) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_of(body_); }

  void run(const KernelIo& io) override {
    const std::int64_t items = body_.items();
    if (items == 0) return;
    body_.bind(io);
    // Fewer elements than this are not worth waking other threads.
    const std::int64_t parts = std::clamp<std::int64_t>(items * body_.item_work() / (8 * 1024), 1,
                                                        std::min<std::int64_t>(items, threads_));
#pragma omp parallel for num_threads(threads_) if (parts > 1)
    for (std::int64_t part = 0; part < parts; ++part)
      run_(body_, items * part / parts, items * (part + 1) / parts);
  }

 private:
  Body body_;
  int threads_;
  detail::ItemsRun<Body> run_ = detail::items_run<Body>();
};

struct ItemsDevice {
  template <typename Body>
  static std::unique_ptr<Kernel> kernel(const KernelRequest& request, const Body& body) {
    return std::make_unique<ItemsKernel<Body>>(body, request.device.threads());
  }
};

}  // namespace autopar::runtime::cpu
