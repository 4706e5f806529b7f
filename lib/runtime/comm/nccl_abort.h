#pragma once

#include <nccl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace autopar::runtime {

/// The end of a rank's communicators that does not wait for other ranks. ncclCommAbort soon ends
/// what they do on the GPU, but it returns only when no CUDA graph has their operations any more
/// (NCCL User Guide, "Using NCCL with CUDA Graphs") and all threads of NCCL have ended. So a thread
/// of its own calls it: who has the graphs destroys them meanwhile.
class NcclAbort {
 public:
  /// Begins. `comms` are all of GPU `gpu`, in the order in which they were made.
  NcclAbort(std::vector<ncclComm_t> comms, int gpu) noexcept;
  /// When all is over, or after a few seconds: what has not ended then is left behind, with its
  /// thread.
  ~NcclAbort();
  NcclAbort(const NcclAbort&) = delete;
  NcclAbort& operator=(const NcclAbort&) = delete;

 private:
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
  };
  std::shared_ptr<Progress> progress_;
};

}  // namespace autopar::runtime
