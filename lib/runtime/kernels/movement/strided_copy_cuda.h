#pragma once

#include <array>

#include "runtime/kernels/movement/copy_plan_cuda.h"

namespace autopar::runtime::cuda {

/// StridedCopies in one launch for all copies that move words of one width, up to eight, and
/// one for each that transposes.
class CudaStridedCopies final : public StridedCopies {
 public:
  explicit CudaStridedCopies(std::vector<CopyLayout> layouts,
                             std::int64_t most_elements = FastDivisor::limit);
  void run(std::span<const CopyPlace> places, void* stream) const override;

 private:
  struct Copy {
    bool repeats = false;
    /// Indexed by the logarithm of the alignment at run time.
    std::array<std::vector<CopyJob>, 5> jobs;
  };
  static const std::vector<CopyJob>& jobs_at(const Copy& copy, const CopyPlace& place);
  template <typename Load, typename Store>
  void run_words(std::span<const CopyPlace> places, void* stream) const;

  std::vector<Copy> copies_;
};

/// Loads all kernels that copy (see CudaRunner).
void load_strided_copies();

}  // namespace autopar::runtime::cuda
