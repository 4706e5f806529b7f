#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_runtime_api.h"
#include "machine.h"
#include "queue.h"

namespace autopar::emulation {
struct Capture;
}

struct CUstream_st {
  int device;
  bool blocking;  ///< orders itself with the null stream
  int priority;
  autopar::emulation::OperationPtr last;
  /// While it captures: the sequence it belongs to, and the nodes that its next one comes after.
  std::shared_ptr<autopar::emulation::Capture> capture;
  std::vector<CUgraphNode_st*> frontier;
};

namespace autopar::emulation {

/// Guards streams, events and captures; never held while work executes.
std::mutex& stream_mutex();

/// The stream behind a handle, the null stream of the current device included; null for a handle
/// that is no stream's. The caller holds stream_mutex().
CUstream_st* find_stream(cudaStream_t handle);

/// What the next operation of `stream` comes after. The caller holds stream_mutex().
std::vector<OperationPtr> operations_before(const CUstream_st& stream);

/// Queues or captures work in a stream; `queued`, if there, is set to what was queued.
cudaError_t submit(cudaStream_t stream, cudaGraphNodeType kind, std::function<bool()> run,
                   OperationPtr* queued = nullptr);

/// Waits for `operation` as the host does; the error of `device`.
cudaError_t synchronise(const OperationPtr& operation, int device);

/// Executes all that is queued for `device`.
void finish_device(int device);

/// Whether work of enqueue_polled is queued for `device` that is not done.
bool has_waiting_work(int device);

/// Drops the streams' hold on what they queued.
void forget_queued_work();

}  // namespace autopar::emulation
