#pragma once

#include "runtime/device.h"

namespace autopar::runtime {

/// This machine's cores: `threads` of them for each kernel. While it lives, that is what OpenMP
/// uses on the thread that made it: oneDNN asks when it makes a primitive, not only when it runs.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  const KernelTable& kernels() const override { return cpu_kernels(); }
  int threads() const override { return threads_; }
  bool shares_host_memory() const override { return true; }
  std::shared_ptr<std::byte> allocate(std::int64_t bytes) override;
  void write(std::byte* to, std::span<const std::byte> from) override;
  void read(std::span<std::byte> to, const std::byte* from) override;
  std::unique_ptr<StridedCopies> make_strided_copies(std::vector<CopyLayout> layouts) override;
  void fill(std::byte* to, std::byte value, std::int64_t bytes, void* stream) override;
  std::unique_ptr<Runner> make_runner(std::vector<Step> steps,
                                      CollectiveContext* collectives) override;

 private:
  int threads_;
  int threads_before_;  ///< put back, as devices may nest: constants are folded by one of their own
};

}  // namespace autopar::runtime
