#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "queue.h"

struct CUgraphNode_st {
  autopar::emulation::Work work;
  std::vector<CUgraphNode_st*> after;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< each behind those it comes after
};

struct CUgraphExec_st {
  std::vector<autopar::emulation::Work> work;
  std::vector<std::vector<std::size_t>> after;
  std::vector<std::size_t> last;  ///< nodes that none comes after
  autopar::emulation::OperationPtr launched;
};

namespace autopar::emulation {

/// What streams record between BeginCapture and EndCapture.
struct Capture {
  std::uint64_t id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  CUstream_st* origin;
  bool valid = true;
  bool active = true;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  std::vector<CUstream_st*> streams;
};
using CapturePtr = std::shared_ptr<Capture>;

// The callers of these hold stream_mutex().

/// Records `work` in the stream's capture.
cudaError_t capture_work(CUstream_st& stream, Work work);

/// `stream` waits for what was captured before an event: it joins the capture if it is not in it.
cudaError_t capture_wait(CUstream_st& stream, const CapturePtr& capture,
                         const std::vector<CUgraphNode_st*>& frontier);

/// Makes the capture of `stream` invalid; returns `error`.
cudaError_t invalidate(const CUstream_st& stream, cudaError_t error);

// The callers of these do not.

bool is_capturing(cudaStream_t stream);

/// As invalidate().
cudaError_t refuse_in_capture(cudaStream_t stream, cudaError_t error);

/// Whether captures forbid the calling thread unsafe calls; those that do become invalid.
bool captures_forbid();

}  // namespace autopar::emulation
