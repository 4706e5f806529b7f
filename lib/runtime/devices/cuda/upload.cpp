#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/in_parallel.h"
#include "runtime/devices/cuda/cuda_device.h"

namespace autopar::runtime::cuda {
namespace {

constexpr std::size_t piece_bytes = 4 << 20;
/// A thread copies about 8 GB/s out of the page cache; PCIe 5 takes seven times that.
constexpr std::size_t max_threads = 8;

struct Piece {
  std::span<const std::byte> from;
  std::byte* to;
};

class PinnedBuffer {
 public:
  PinnedBuffer() : sent_(make_event()) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, piece_bytes), "pinned memory for weights");
    memory_.reset(static_cast<std::byte*>(memory));
  }

  void send(const Piece& piece, cudaStream_t stream) {
    check(cudaEventSynchronize(sent_.get()), "copying weights");  // what it held before
    std::memcpy(memory_.get(), piece.from.data(), piece.from.size());
    check(
        cudaMemcpyAsync(piece.to, memory_.get(), piece.from.size(), cudaMemcpyHostToDevice, stream),
        "copying weights");
    check(cudaEventRecord(sent_.get(), stream), "copying weights");
  }

 private:
  PinnedMemory memory_;
  Event sent_;
};

}  // namespace

/// The tensors lie in pageable memory, a mapped file most often. Threads take pieces in turn, each
/// with two pinned buffers: it fills one while the other is on its way.
void CudaDevice::upload(std::span<const Upload> tensors) {
  std::vector<Piece> pieces;
  for (const Upload& each : tensors) {
    const auto bytes = each.from->bytes();
    for (std::size_t begin = 0; begin < bytes.size(); begin += piece_bytes)
      pieces.push_back(
          {bytes.subspan(begin, std::min(piece_bytes, bytes.size() - begin)), each.to + begin});
  }
  int gpu = 0;
  check(cudaGetDevice(&gpu), "the GPU");
  std::atomic<std::size_t> next = 0;
  in_parallel(std::min({max_threads, cores(), pieces.size()}), [&](std::size_t) {
    check(cudaSetDevice(gpu), "the GPU");
    const Stream stream = make_stream();
    std::array<PinnedBuffer, 2> buffers;
    std::size_t turn = 0;
    for (std::size_t piece = next++; piece < pieces.size(); piece = next++)
      buffers[turn++ % 2].send(pieces[piece], stream.get());
    check(cudaStreamSynchronize(stream.get()), "copying weights");
  });
}

}  // namespace autopar::runtime::cuda
