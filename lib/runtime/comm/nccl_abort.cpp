#include "runtime/comm/nccl_abort.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/wait_until.h"

namespace autopar::runtime {
namespace {

/// NCCL's threads look every half second whether they shall end.
constexpr auto patience = std::chrono::seconds(5);

/// All at once: aborting one waits for its work, which may be behind another's.
void abort_all(const std::vector<ncclComm_t>& comms, int gpu) {
  cudaSetDevice(gpu);
  // A graph that is being captured, by whatever thread, does not get what NCCL does then.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  ncclGroupStart();
  std::for_each(comms.rbegin(), comms.rend(), ncclCommAbort);
  ncclGroupEnd();
  cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace

NcclAbort::NcclAbort(std::vector<ncclComm_t> comms, int gpu) noexcept
    : progress_(std::make_shared<Progress>()) {
  const auto work = [comms = std::move(comms), gpu, progress = progress_] {
    abort_all(comms, gpu);
    const std::lock_guard lock(progress->mutex);
    progress->is_over = true;
    progress->changed.notify_all();
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // no thread is to be had
    work();
  }
}

NcclAbort::~NcclAbort() {
  std::unique_lock lock(progress_->mutex);
  progress_->changed.wait_for(lock, patience, [&] { return progress_->is_over; });
}

}  // namespace autopar::runtime
