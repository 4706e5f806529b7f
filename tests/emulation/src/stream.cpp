#include "stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "capture.h"
#include "emulation.h"

using autopar::emulation::OperationPtr;
using Clock = std::chrono::steady_clock;

struct CUevent_st {
  int device;
  bool timed;
  OperationPtr recorded;
  std::shared_ptr<Clock::time_point> time;
  /// If it was last recorded in a capture.
  autopar::emulation::CapturePtr capture;
  std::vector<CUgraphNode_st*> frontier;
};

namespace autopar::emulation {

namespace {

struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::array<CUstream_st, kMaxDevices> null_streams;
  std::vector<std::pair<int, OperationPtr>> detached;          ///< of streams that were destroyed
  std::array<std::vector<OperationPtr>, kMaxDevices> waiting;  ///< for others, by device
};

Streams& all() {
  static Streams& instance = []() -> Streams& {
    auto* made = new Streams;
    for (int device = 0; device < kMaxDevices; ++device) {
      made->null_streams[device].device = device;
      made->null_streams[device].blocking = true;
    }
    return *made;
  }();
  return instance;
}

CUevent_st* find_event(cudaEvent_t handle) {
  return all().events.contains(handle) ? handle : nullptr;
}

bool is_null_stream(const CUstream_st& stream) {
  return &stream == &all().null_streams[stream.device];
}

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  const std::lock_guard lock(all().mutex);
  *stream = new CUstream_st{current_device(),
                            (flags & cudaStreamNonBlocking) == 0,
                            std::clamp(priority, -5, 0),
                            {},
                            {},
                            {}};
  all().streams.insert(*stream);
  return cudaSuccess;
}

/// The null stream may not be used while a stream that orders itself with it captures.
cudaError_t check_null_stream(const CUstream_st& stream) {
  if (!is_null_stream(stream)) return cudaSuccess;
  for (const CUstream_st* other : all().streams) {
    if (other->device == stream.device && other->blocking && other->capture != nullptr) {
      return invalidate(*other, cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

/// What a wait for the stream waits for, if it does not capture.
cudaError_t last_operation(cudaStream_t handle, OperationPtr& last, int& device) {
  const std::lock_guard lock(all().mutex);
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
  if (cudaError_t error = check_null_stream(*stream); error != cudaSuccess) return error;
  device = stream->device;
  last = stream->last;
  if (is_null_stream(*stream))
    last = queue_work({device, cudaGraphNodeTypeEmpty, {}}, operations_before(*stream));
  return cudaSuccess;
}

cudaError_t recorded_operation(cudaEvent_t handle, OperationPtr& recorded, int& device) {
  const std::lock_guard lock(all().mutex);
  const CUevent_st* event = find_event(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->capture != nullptr) {
    event->capture->valid = false;
    return cudaErrorCapturedEvent;
  }
  recorded = event->recorded;
  device = event->device;
  return cudaSuccess;
}

}  // namespace

std::mutex& stream_mutex() { return all().mutex; }

CUstream_st* find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return &all().null_streams[current_device()];
  }
  return all().streams.contains(handle) ? handle : nullptr;
}

std::vector<OperationPtr> operations_before(const CUstream_st& stream) {
  std::vector<OperationPtr> operations{stream.last};
  if (is_null_stream(stream)) {
    for (const CUstream_st* other : all().streams) {
      if (other->device == stream.device && other->blocking) operations.push_back(other->last);
    }
  } else if (stream.blocking) {
    operations.push_back(all().null_streams[stream.device].last);
  }
  return operations;
}

cudaError_t submit(cudaStream_t handle, cudaGraphNodeType kind, std::function<bool()> run,
                   OperationPtr* queued) {
  const std::lock_guard lock(all().mutex);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Work work{stream->device, kind, std::move(run)};
  if (stream->capture != nullptr) return capture_work(*stream, std::move(work));
  if (cudaError_t error = check_null_stream(*stream); error != cudaSuccess) return error;
  stream->last = queue_work(std::move(work), operations_before(*stream));
  if (queued != nullptr) *queued = stream->last;
  return cudaSuccess;
}

cudaError_t synchronise(const OperationPtr& operation, int device) {
  ++count().synchronisations;
  finish(operation);
  return device_error(device);
}

void finish_device(int device) {
  std::vector<OperationPtr> operations;
  {
    const std::lock_guard lock(all().mutex);
    operations.push_back(all().null_streams[device].last);
    for (const CUstream_st* stream : all().streams) {
      if (stream->device == device) operations.push_back(stream->last);
    }
    std::erase_if(all().detached, [&](const auto& detached) {
      if (detached.first == device) operations.push_back(detached.second);
      return detached.first == device;
    });
  }
  for (const OperationPtr& operation : operations) finish(operation);
}

bool has_waiting_work(int device) {
  const std::lock_guard lock(all().mutex);
  auto& waiting = all().waiting[static_cast<std::size_t>(device)];
  std::erase_if(waiting, is_done);
  return !waiting.empty();
}

void forget_queued_work() {
  const std::lock_guard lock(all().mutex);
  all().detached.clear();
  for (auto& waiting : all().waiting) waiting.clear();
  for (CUstream_st& stream : all().null_streams) stream.last = nullptr;
  for (CUstream_st* stream : all().streams) stream->last = nullptr;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return call([&] {
    return submit(stream, cudaGraphNodeTypeKernel, [work = std::move(work)] {
      work();
      return true;
    });
  });
}

cudaError_t enqueue_polled(cudaStream_t stream, std::function<bool()> poll) {
  return call([&] {
    OperationPtr queued;
    const cudaError_t error = submit(stream, cudaGraphNodeTypeKernel, std::move(poll), &queued);
    if (queued == nullptr) return error;  // captured
    const int device = device_of(stream);
    const std::lock_guard lock(all().mutex);
    all().waiting[static_cast<std::size_t>(device)].push_back(std::move(queued));
    return error;
  });
}

int device_of(cudaStream_t handle) {
  const std::lock_guard lock(all().mutex);
  const CUstream_st* stream = find_stream(handle);
  return stream == nullptr ? -1 : stream->device;
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&] { return create_stream(stream, flags, priority); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    const CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return call([&] {
    *device = device_of(stream);
    return *device < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    if (!all().streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
    all().detached.emplace_back(stream->device, stream->last);
    all().streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(InCapture::kForbidden, [&] {
    OperationPtr last;
    int device = 0;
    const cudaError_t error = last_operation(stream, last, device);
    return error == cudaSuccess ? synchronise(last, device) : error;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call(InCapture::kForbidden, [&] {
    OperationPtr last;
    int device = 0;
    const cudaError_t error = last_operation(stream, last, device);
    if (error != cudaSuccess) return error;
    const bool done = progress(last);
    if (device_error(device) != cudaSuccess) return device_error(device);
    return done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    CUstream_st* stream = find_stream(stream_handle);
    const CUevent_st* event = find_event(event_handle);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture != nullptr) return capture_wait(*stream, event->capture, event->frontier);
    if (stream->capture != nullptr) return invalidate(*stream, cudaErrorStreamCaptureIsolation);
    std::vector<OperationPtr> before = operations_before(*stream);
    before.push_back(event->recorded);
    stream->last = queue_work({stream->device, cudaGraphNodeTypeEmpty, {}}, before);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  return call([&] {
    return submit(stream, cudaGraphNodeTypeHost, [function, user_data] {
      function(user_data);
      return true;
    });
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    const std::lock_guard lock(all().mutex);
    const bool timed = (flags & cudaEventDisableTiming) == 0;
    *event = new CUevent_st{current_device(), timed, {}, {}, {}, {}};
    all().events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    CUstream_st* stream = find_stream(stream_handle);
    CUevent_st* event = find_event(event_handle);
    if (stream == nullptr || event == nullptr || event->device != stream->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) {
      event->capture = stream->capture;
      event->frontier = stream->frontier;
      event->recorded = nullptr;
      return cudaSuccess;
    }
    if (cudaError_t error = check_null_stream(*stream); error != cudaSuccess) return error;
    auto time = std::make_shared<Clock::time_point>();
    const auto record = [time] {
      *time = Clock::now();
      return true;
    };
    stream->last =
        queue_work({stream->device, cudaGraphNodeTypeEmpty, record}, operations_before(*stream));
    event->capture = nullptr;
    event->recorded = stream->last;
    event->time = time;
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(InCapture::kForbidden, [&] {
    OperationPtr recorded;
    int device = 0;
    const cudaError_t error = recorded_operation(event, recorded, device);
    return error == cudaSuccess ? synchronise(recorded, device) : error;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(InCapture::kForbidden, [&] {
    OperationPtr recorded;
    int device = 0;
    const cudaError_t error = recorded_operation(event, recorded, device);
    if (error != cudaSuccess) return error;
    const bool done = progress(recorded);
    if (device_error(device) != cudaSuccess) return device_error(device);
    return done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    for (const cudaEvent_t handle : {start, end}) {
      const CUevent_st* event = find_event(handle);
      if (event == nullptr || !event->timed || event->recorded == nullptr) {
        return cudaErrorInvalidResourceHandle;
      }
    }
    if (!is_done(start->recorded) || !is_done(end->recorded)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *start->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] {
    const std::lock_guard lock(all().mutex);
    if (all().events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}
