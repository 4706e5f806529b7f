#include "runtime/devices/cpu_device.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/devices/cpu_runner.h"
#include "runtime/kernels/movement/strided_copy_cpu.h"

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

/// One after the other, with no more threads than the calling one may have.
class CpuStridedCopies final : public StridedCopies {
 public:
  CpuStridedCopies(std::vector<CopyLayout> layouts, int threads) : threads_(threads) {
    for (CopyLayout& each : layouts)
      copies_.emplace_back(std::move(each.shape), std::move(each.in_strides),
                           std::move(each.out_strides), each.element_bytes);
  }
  void run(std::span<const CopyPlace> places, void*) const override {
    const int threads = std::min(threads_, omp_get_max_threads());
    for (std::size_t i = 0; i < copies_.size(); ++i)
      copies_[i].run(places[i].in, places[i].out, threads);
  }

 private:
  std::vector<cpu::StridedCopy> copies_;
  int threads_;
};

void copy_bytes(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : threads_(usable_threads(threads)), threads_before_(omp_get_max_threads()) {
  omp_set_num_threads(threads_);
}

CpuDevice::~CpuDevice() { omp_set_num_threads(threads_before_); }

std::shared_ptr<std::byte> CpuDevice::allocate(std::int64_t bytes) {
  constexpr std::align_val_t alignment{64};
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  return {static_cast<std::byte*>(::operator new(size, alignment)),
          [](std::byte* memory) { ::operator delete(memory, alignment); }};
}

void CpuDevice::write(std::byte* to, std::span<const std::byte> from) { copy_bytes(to, from); }

void CpuDevice::read(std::span<std::byte> to, const std::byte* from) {
  copy_bytes(to.data(), {from, to.size()});
}

std::unique_ptr<StridedCopies> CpuDevice::make_strided_copies(std::vector<CopyLayout> layouts) {
  return std::make_unique<CpuStridedCopies>(std::move(layouts), threads_);
}

void CpuDevice::fill(std::byte* to, std::byte value, std::int64_t bytes, void*) {
  std::fill_n(to, bytes, value);
}

std::unique_ptr<Runner> CpuDevice::make_runner(std::vector<Step> steps,
                                               CollectiveContext* collectives) {
  return make_cpu_runner(std::move(steps), threads_, collectives);
}

}  // namespace autopar::runtime
