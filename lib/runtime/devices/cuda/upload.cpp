#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "base/in_parallel.h"
#include "base/work_signs.h"
#include "runtime/devices/cuda/cuda_device.h"

namespace autopar::runtime::cuda {
namespace {

/// Little enough that what was read is still in the processor's cache when the GPU fetches it, and
/// so much that the launch of a copy counts little beside it.
constexpr std::size_t piece_bytes = 2 << 20;
/// A thread reads about 8 GB/s out of the page cache; PCIe 5 takes seven times that.
constexpr int most_threads = 8;

/// Some of a tensor.
struct Part {
  const graph::Tensor* tensor = nullptr;
  std::size_t begin = 0;  ///< in it
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

/// Parts that pass through a pinned buffer together: one large, or several small.
struct Piece {
  std::vector<Part> parts;
  std::size_t bytes = 0;
};

std::vector<Piece> pieces_of(std::span<const Device::Upload> tensors) {
  std::vector<Piece> pieces(1);
  for (const Device::Upload& each : tensors) {
    const std::size_t all = each.from->bytes().size();
    for (std::size_t begin = 0; begin < all; begin += piece_bytes) {
      const std::size_t bytes = std::min(piece_bytes, all - begin);
      if (pieces.back().bytes + bytes > piece_bytes) pieces.emplace_back();
      pieces.back().parts.push_back({each.from, begin, bytes, each.to + begin});
      pieces.back().bytes += bytes;
    }
  }
  return pieces;
}

class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::byte* memory) : memory_(memory), sent_(make_event()) {}

  /// Returns when the piece has been read and is on its way. A file is read, not touched where it
  /// is mapped: each page would be mapped first. Parts that follow one another on the GPU as they
  /// do here go as one copy.
  void send(const Piece& piece, cudaStream_t stream) {
    check(cudaEventSynchronize(sent_.get()), "copying weights");  // what it held before
    std::byte* end = memory_;
    for (const Part& part : piece.parts) {
      part.tensor->read(static_cast<std::int64_t>(part.begin), {end, part.bytes});
      end += part.bytes;
    }
    const std::byte* from = memory_;
    for (std::size_t i = 0; i < piece.parts.size();) {
      std::byte* const to = piece.parts[i].to;
      std::size_t bytes = 0;
      for (; i < piece.parts.size() && piece.parts[i].to == to + bytes; ++i)
        bytes += piece.parts[i].bytes;
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying weights");
      from += bytes;
    }
    check(cudaEventRecord(sent_.get(), stream), "copying weights");
  }

 private:
  std::byte* memory_;
  Event sent_;
};

PinnedMemory pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "pinned memory for weights");
  return PinnedMemory(static_cast<std::byte*>(memory));
}

}  // namespace

/// Threads take pieces in turn, each with two pinned buffers: it fills one while the other is on
/// its way.
void CudaDevice::upload(std::span<const Upload> tensors) {
  const std::vector<Piece> pieces = pieces_of(tensors);
  if (pieces.front().parts.empty()) return;
  const std::size_t threads =
      std::min<std::size_t>(std::clamp(options_.threads, 1, most_threads), pieces.size());
  const PinnedMemory memory = pinned_memory(2 * threads * piece_bytes);
  WorkListener* const listener = work_listener();
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  in_parallel(threads, [&](std::size_t thread) {
    const WorkScope work(thread == 0 ? listener : nullptr);
    try {
      note_work();
      check(cudaSetDevice(options_.gpu), "the GPU");
      std::byte* const mine = memory.get() + 2 * thread * piece_bytes;
      std::array<PinnedBuffer, 2> buffers = {PinnedBuffer(mine), PinnedBuffer(mine + piece_bytes)};
      const Stream stream = make_stream();
      std::size_t turn = 0;
      for (std::size_t i = next++; i < pieces.size() && !has_failed; i = next++) {
        buffers[turn++ % 2].send(pieces[i], stream.get());
        note_work();
      }
      check(cudaStreamSynchronize(stream.get()), "copying weights");
    } catch (...) {
      has_failed = true;
      cudaDeviceSynchronize();  // what still comes out of the buffers
      throw;
    }
  });
}

}  // namespace autopar::runtime::cuda
