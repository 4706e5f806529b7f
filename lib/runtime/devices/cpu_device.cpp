#include "runtime/devices/cpu_device.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/kernels/cpu/strided_copy.h"
#include "runtime/trace.h"

namespace autopar::runtime {
namespace {

/// libgomp's barriers are unknown to ThreadSanitizer, which would report every parallel loop: there
/// each rank has one thread, and what is checked is the ranks' communication.
int usable_threads(int threads) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(threads);
  return 1;
#else
  return threads;
#endif
}

class CpuStridedCopy final : public StridedCopy {
 public:
  CpuStridedCopy(cpu::StridedCopy copy, int threads) : copy_(std::move(copy)), threads_(threads) {}
  void run(const std::byte* in, std::byte* out, void*) const override {
    copy_.run(in, out, threads_);
  }

 private:
  cpu::StridedCopy copy_;
  int threads_;
};

/// One step after the other.
class CpuRunner final : public Runner {
 public:
  CpuRunner(std::vector<Step> steps, int threads) : steps_(std::move(steps)), threads_(threads) {}
  void run() override {
    omp_set_num_threads(threads_);
    for (const Step& step : steps_) step.kernel->run(step.io());
  }
  std::vector<Span> profile() override {
    omp_set_num_threads(threads_);
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const std::chrono::nanoseconds since_epoch =
        std::chrono::system_clock::now().time_since_epoch();
    std::vector<Span> spans;
    for (const Step& step : steps_) {
      const auto begin = Clock::now();
      step.kernel->run(step.io());
      Span& span = spans.emplace_back(span_of(step, Queue::computation));
      span.duration = Clock::now() - begin;
      span.begin = since_epoch + (begin - start);
    }
    return spans;
  }

 private:
  std::vector<Step> steps_;
  int threads_;
};

void copy_bytes(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

CpuDevice::CpuDevice(int threads) : threads_(usable_threads(threads)) {
  omp_set_num_threads(threads_);  // oneDNN asks when it makes a primitive, not only when it runs
}

std::shared_ptr<std::byte> CpuDevice::allocate(std::int64_t bytes) {
  constexpr std::align_val_t alignment{64};
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  return {static_cast<std::byte*>(::operator new(size, alignment)),
          [](std::byte* memory) { ::operator delete(memory, alignment); }};
}

void CpuDevice::upload(std::span<const Upload> tensors) {
  for (const Upload& each : tensors) copy_bytes(each.to, each.from->bytes());
}

void CpuDevice::write(std::byte* to, std::span<const std::byte> from) { copy_bytes(to, from); }

void CpuDevice::read(std::span<std::byte> to, const std::byte* from) {
  copy_bytes(to.data(), {from, to.size()});
}

std::unique_ptr<StridedCopy> CpuDevice::make_strided_copy(Shape shape,
                                                          std::vector<std::int64_t> in_strides,
                                                          std::vector<std::int64_t> out_strides,
                                                          int element_bytes) {
  return std::make_unique<CpuStridedCopy>(cpu::StridedCopy(std::move(shape), std::move(in_strides),
                                                           std::move(out_strides), element_bytes),
                                          threads_);
}

void CpuDevice::fill(std::byte* to, std::byte value, std::int64_t bytes, void*) {
  std::fill_n(to, bytes, value);
}

std::unique_ptr<Runner> CpuDevice::make_runner(std::vector<Step> steps, CollectiveContext*) {
  return std::make_unique<CpuRunner>(std::move(steps), threads_);
}

}  // namespace autopar::runtime
