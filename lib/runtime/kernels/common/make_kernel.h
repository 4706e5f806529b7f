#pragma once

#include <memory>
#include <utility>

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

/// A kernel that is one function of a run's tensors, with what it captures.
template <typename Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Run run, std::int64_t scratch_bytes)
      : run_(std::move(run)), scratch_bytes_(scratch_bytes) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const KernelIo& io) override { run_(io); }

 private:
  Run run_;
  std::int64_t scratch_bytes_;
};

template <typename Run>
std::unique_ptr<Kernel> make_kernel(Run run, std::int64_t scratch_bytes = 0) {
  return std::make_unique<FunctionKernel<Run>>(std::move(run), scratch_bytes);
}

/// The kernel that `make(A{}, B{})` makes for the types of two lists that `a` and `b` name; Error
/// where one is not there.
template <typename AList, typename BList, typename Make>
std::unique_ptr<Kernel> kernel_for_types(const KernelRequest& request, DataType a, AList a_list,
                                         DataType b, BList b_list, Make make) {
  return kernel_for_type(request, a, a_list, [&](auto x) {
    return kernel_for_type(request, b, b_list, [&](auto y) { return make(x, y); });
  });
}

}  // namespace autopar::runtime
