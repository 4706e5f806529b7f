#include "capture.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "emulation.h"
#include "machine.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

/// Captures between BeginCapture and EndCapture; guarded by stream_mutex().
std::vector<CapturePtr>& active_captures() {
  static auto& instance = *new std::vector<CapturePtr>;
  return instance;
}

cudaStreamCaptureMode& thread_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

void add_missing(std::vector<CUgraphNode_st*>& to, const std::vector<CUgraphNode_st*>& nodes) {
  for (CUgraphNode_st* node : nodes) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

void collect_before(const CUgraphNode_st* node, std::unordered_set<const CUgraphNode_st*>& seen) {
  if (!seen.insert(node).second) return;
  for (const CUgraphNode_st* earlier : node->after) collect_before(earlier, seen);
}

/// Whether the origin waits for all that the other streams captured.
bool all_joined(const Capture& capture) {
  std::unordered_set<const CUgraphNode_st*> joined;
  for (const CUgraphNode_st* node : capture.origin->frontier) collect_before(node, joined);
  return std::all_of(
      capture.streams.begin(), capture.streams.end(), [&](const CUstream_st* stream) {
        return std::all_of(stream->frontier.begin(), stream->frontier.end(),
                           [&](const CUgraphNode_st* node) { return joined.contains(node); });
      });
}

void end(const CapturePtr& capture) {
  capture->active = false;
  for (CUstream_st* stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  std::erase(active_captures(), capture);
}

/// Queues a graph's nodes in a stream, each after those that it comes after in the graph.
void launch_graph(CUgraphExec_st& exec, CUstream_st& stream) {
  std::vector<OperationPtr> roots_after = operations_before(stream);
  roots_after.push_back(exec.launched);
  std::vector<OperationPtr> operations;
  const auto queued = [&](const std::vector<std::size_t>& nodes) {
    std::vector<OperationPtr> before;
    for (const std::size_t node : nodes) before.push_back(operations[node]);
    return before;
  };
  for (std::size_t node = 0; node < exec.work.size(); ++node) {
    const auto& after = exec.after[node];
    operations.push_back(queue_work(exec.work[node], after.empty() ? roots_after : queued(after)));
  }
  stream.last = queue_work({stream.device, cudaGraphNodeTypeEmpty, {}},
                           operations.empty() ? roots_after : queued(exec.last));
  exec.launched = stream.last;
}

}  // namespace

cudaError_t invalidate(const CUstream_st& stream, cudaError_t error) {
  stream.capture->valid = false;
  return error;
}

cudaError_t capture_work(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (!capture.valid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = capture.graph->nodes;
  nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(work), std::move(stream.frontier)));
  stream.frontier = {nodes.back().get()};
  return cudaSuccess;
}

cudaError_t capture_wait(CUstream_st& stream, const CapturePtr& capture,
                         const std::vector<CUgraphNode_st*>& frontier) {
  if (!capture->active) return cudaErrorCapturedEvent;
  if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture == nullptr) {
    if (find_stream(nullptr) == &stream) {
      capture->valid = false;
      return cudaErrorStreamCaptureImplicit;
    }
    stream.capture = capture;
    capture->streams.push_back(&stream);
  } else if (stream.capture != capture) {
    stream.capture->valid = capture->valid = false;
    return cudaErrorStreamCaptureMerge;
  }
  add_missing(stream.frontier, frontier);
  return cudaSuccess;
}

bool is_capturing(cudaStream_t handle) { return capture_id(handle) != 0; }

std::uint64_t capture_id(cudaStream_t handle) {
  const std::lock_guard lock(stream_mutex());
  const CUstream_st* stream = find_stream(handle);
  return stream == nullptr || stream->capture == nullptr ? 0 : stream->capture->id;
}

cudaError_t refuse_in_capture(cudaStream_t handle, cudaError_t error) {
  const std::lock_guard lock(stream_mutex());
  return invalidate(*find_stream(handle), error);
}

bool captures_forbid() {
  if (thread_mode() == cudaStreamCaptureModeRelaxed) return false;
  const std::lock_guard lock(stream_mutex());
  bool forbid = false;
  for (const CapturePtr& capture : active_captures()) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = own ? capture->mode != cudaStreamCaptureModeRelaxed
                             : capture->mode == cudaStreamCaptureModeGlobal &&
                                   thread_mode() == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    capture->valid = false;
    forbid = true;
  }
  return forbid;
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    const std::lock_guard lock(stream_mutex());
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream == find_stream(nullptr)) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    static std::uint64_t captures = 0;
    stream->capture =
        std::make_shared<Capture>(++captures, mode, std::this_thread::get_id(), stream);
    stream->capture->streams = {stream};
    active_captures().push_back(stream->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call([&] {
    const std::lock_guard lock(stream_mutex());
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *graph = nullptr;
    const CapturePtr capture = stream->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != stream) return invalidate(*stream, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool joined = all_joined(*capture);
    end(capture);
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = capture->graph.release();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([&] {
    const std::lock_guard lock(stream_mutex());
    const CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->valid   ? cudaStreamCaptureStatusActive
                                         : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([&] {
    std::swap(*mode, thread_mode());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call([&] {
    if (nodes == nullptr) {
      *count = graph->nodes.size();
      return cudaSuccess;
    }
    for (std::size_t i = 0; i < *count; ++i) {
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    }
    *count = std::min(*count, graph->nodes.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call([&] {
    *type = node->work.kind;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_unique<CUgraphExec_st>();
    std::unordered_map<const CUgraphNode_st*, std::size_t> numbers;
    std::vector<bool> followed(graph->nodes.size());
    for (const auto& node : graph->nodes) {
      std::vector<std::size_t>& after = made->after.emplace_back();
      for (const CUgraphNode_st* earlier : node->after) {
        after.push_back(numbers.at(earlier));
        followed[after.back()] = true;
      }
      made->work.push_back(node->work);
      numbers.emplace(node.get(), numbers.size());
    }
    for (std::size_t node = 0; node < followed.size(); ++node) {
      if (!followed[node]) made->last.push_back(node);
    }
    *exec = made.release();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return call([&] { return exec == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return call([&] {
    if (exec == nullptr) return cudaErrorInvalidValue;
    const std::lock_guard lock(stream_mutex());
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    // Graphs within graphs are not emulated.
    if (stream->capture != nullptr) return invalidate(*stream, cudaErrorNotSupported);
    launch_graph(*exec, *stream);
    ++count().graph_launches;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] {
    delete exec;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    delete graph;
    return cudaSuccess;
  });
}
