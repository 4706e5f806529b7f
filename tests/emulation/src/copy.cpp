#include <cstring>
#include <memory>
#include <vector>

#include "capture.h"
#include "emulation.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

/// `height` rows of `width` bytes, each side with its own distance between rows.
struct Copy {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;

  std::size_t to_bytes() const { return (height - 1) * to_pitch + width; }
  std::size_t from_bytes() const { return (height - 1) * from_pitch + width; }

  void execute() const {
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(to + row * to_pitch, from + row * from_pitch, width);
    }
  }
};

/// Whether [pointer, pointer + bytes) is of the side that is asked for.
bool is_on(bool device, const void* pointer, std::size_t bytes) {
  return device ? device_holding(pointer, bytes) >= 0 : device_holding(pointer, 0) < 0;
}

bool fits(const Copy& copy, cudaMemcpyKind kind) {
  if (copy.to_pitch < copy.width || copy.from_pitch < copy.width) return false;
  const bool from_device = kind == cudaMemcpyDefault
                               ? device_holding(copy.from, 0) >= 0
                               : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyDefault
                             ? device_holding(copy.to, 0) >= 0
                             : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  return is_on(from_device, copy.from, copy.from_bytes()) &&
         is_on(to_device, copy.to, copy.to_bytes());
}

/// Opens the memory of both sides: the stream's device need be neither.
void execute(const Copy& copy) {
  std::vector<std::unique_ptr<DeviceAccess>> open;
  for (const void* side :
       {static_cast<const void*>(copy.to), static_cast<const void*>(copy.from)}) {
    if (const int device = device_holding(side, 0); device >= 0) {
      open.push_back(std::make_unique<DeviceAccess>(device));
    }
  }
  copy.execute();
}

/// Pageable memory is read when the call is made, and the host waits until it is written.
cudaError_t copy_in_stream(Copy copy, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (!fits(copy, kind)) return cudaErrorInvalidValue;
  const auto pageable = [](const void* pointer, std::size_t bytes) {
    return device_holding(pointer, 0) < 0 && !is_pinned(pointer, bytes);
  };
  const bool from_pageable = pageable(copy.from, copy.from_bytes());
  const bool to_pageable = pageable(copy.to, copy.to_bytes());
  if ((from_pageable || to_pageable) && is_capturing(stream)) {
    return refuse_in_capture(stream, cudaErrorStreamCaptureUnsupported);
  }
  std::vector<std::byte> staged;
  if (from_pageable) staged.assign(copy.from, copy.from + copy.from_bytes());
  const auto run = [copy, staged = std::move(staged)]() mutable {
    if (!staged.empty()) copy.from = staged.data();
    execute(copy);
    return true;
  };
  OperationPtr queued;
  const cudaError_t error = submit(stream, cudaGraphNodeTypeMemcpy, run, &queued);
  if (error != cudaSuccess) return error;
  ++count().copies;
  return wait || to_pageable ? synchronise(queued, device_of(stream)) : cudaSuccess;
}

Copy one_row(void* to, const void* from, std::size_t bytes) {
  return {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1};
}

}  // namespace

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call(InCapture::kForbidden,
              [&] { return copy_in_stream(one_row(to, from, bytes), kind, nullptr, true); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] { return copy_in_stream(one_row(to, from, bytes), kind, stream, false); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (!is_device_memory(to, bytes, to_device) || !is_device_memory(from, bytes, from_device)) {
      return cudaErrorInvalidValue;
    }
    return copy_in_stream(one_row(to, from, bytes), cudaMemcpyDeviceToDevice, stream, false);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] {
    const Copy copy{static_cast<std::byte*>(to),
                    to_pitch,
                    static_cast<const std::byte*>(from),
                    from_pitch,
                    width,
                    height};
    return copy_in_stream(copy, kind, stream, false);
  });
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (bytes == 0) return cudaSuccess;
    if (device_holding(pointer, bytes) < 0 && !is_pinned(pointer, bytes)) {
      return cudaErrorInvalidValue;
    }
    ++count().copies;
    return submit(stream, cudaGraphNodeTypeMemset, [pointer, value, bytes] {
      std::memset(pointer, value, bytes);
      return true;
    });
  });
}
