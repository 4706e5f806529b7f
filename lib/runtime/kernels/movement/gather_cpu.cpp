#include <atomic>
#include <cstring>
#include <optional>

#include "runtime/device.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/movement/element_lines.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cpu {
namespace {

using graph::Tensor;

constexpr std::int64_t parallel_bytes = 128 * 1024;
/// A call of the system takes as long as copying some hundred bytes.
constexpr std::int64_t long_row_bytes = 512;
constexpr std::int64_t large_table_bytes = 4 << 20;

/// Copies row indices[i] of each of the input's outer blocks. The few of a large table in a file
/// are read from there, so that the others take no memory.
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const KernelRequest& request)
      : node_(request.node.name),
        threads_(request.device.threads()),
        extents_(gathered_extents(request)),
        row_bytes_(extents_.inner * element_bytes_of(request, request.inputs[0])) {
    const Tensor* table = request.constants.empty() ? nullptr : request.constants[0];
    const std::int64_t table_bytes = request.inputs[0].size_bytes();
    const bool reads_few = 4 * request.outputs[0].size_bytes() < table_bytes;
    if (table != nullptr && table->is_mapped() && reads_few && table_bytes >= large_table_bytes &&
        row_bytes_ >= long_row_bytes)
      table_ = *table;
  }

  void run(const KernelIo& io) override {
    const TensorView& indices = io.inputs[1];
    const std::int64_t count = indices.elements();
    const std::int64_t extent = extents_.extent;
    for (std::int64_t i = 0; i < count; ++i) checked_index(integer_at(indices, i), extent, node_);
    const std::int64_t rows = extents_.outer * count;
    const auto bytes = static_cast<std::size_t>(row_bytes_);
    if (rows * row_bytes_ == 0) return;
    for_in_threads(rows * row_bytes_ >= parallel_bytes ? threads_ : 1, rows, [&](std::int64_t row) {
      const std::int64_t index = integer_at(indices, row % count);
      const std::int64_t source = row / count * extent + (index < 0 ? index + extent : index);
      std::byte* out = io.outputs[0].data + row * row_bytes_;
      if (table_) {
        table_->read(source * row_bytes_, {out, bytes});
      } else {
        std::memcpy(out, io.inputs[0].data + source * row_bytes_, bytes);
      }
    });
  }

  bool reads(std::size_t input) const override { return input != 0 || !table_; }

 private:
  std::string node_;
  int threads_;
  AxisExtents extents_;
  std::int64_t row_bytes_;
  std::optional<Tensor> table_;
};

/// The slices that indices name, one after the other.
class GatherND final : public Kernel {
 public:
  explicit GatherND(const KernelRequest& request)
      : node_(request.node.name),
        threads_(request.device.threads()),
        indexing_(slice_indexing(request)),
        bytes_(indexing_.slice_elements() * element_bytes_of(request, request.inputs[0])) {}

  void run(const KernelIo& io) override {
    const std::int64_t count = indexing_.count();
    for (std::int64_t i = 0; i < count; ++i) indexing_.target(io.inputs[1], i, node_);  // checks
    if (bytes_ == 0) return;
    for_in_threads(count * bytes_ >= parallel_bytes ? threads_ : 1, count, [&](std::int64_t i) {
      const std::byte* from = io.inputs[0].data + indexing_.target(io.inputs[1], i, node_) * bytes_;
      std::byte* to = io.outputs[0].data + i * bytes_;
      if (bytes_ <= 8)
        fill(to, from, 1, static_cast<int>(bytes_));
      else
        std::memcpy(to, from, static_cast<std::size_t>(bytes_));
    });
  }

 private:
  std::string node_;
  int threads_;
  SliceIndexing indexing_;
  std::int64_t bytes_;
};

/// `Word` has an element's size.
template <typename Word>
class GatherElements final : public Kernel {
 public:
  explicit GatherElements(const KernelRequest& request)
      : node_(request.node.name),
        threads_(request.device.threads()),
        lines_(element_indexing(request)) {}

  void run(const KernelIo& io) override {
    const std::int64_t rows = lines_.rows();
    const std::int64_t bytes = lines_.count() * static_cast<std::int64_t>(sizeof(Word));
    std::atomic<bool> are_in_range = true;
    with_integers(io.inputs[1], [&](const auto* indices) {
      for_in_threads(bytes >= parallel_bytes ? threads_ : 1, rows, [&](std::int64_t row) {
        if (!gather_row(io, indices, row)) are_in_range = false;
      });
    });
    if (!are_in_range) lines_.check(io.inputs[1], node_);
  }

 private:
  /// Whether the row's indices are in range; else nothing is read.
  template <typename Index>
  bool gather_row(const KernelIo& io, const Index* indices, std::int64_t row) const {
    if (!lines_.are_in_range(indices + row * lines_.row_length(), lines_.row_length()))
      return false;
    const auto* const data = io.inputs[0].as<const Word>();
    auto* const out = io.outputs[0].as<Word>();
    lines_.each(indices, row, 0, lines_.row_length(),
                [=](std::int64_t from, std::int64_t place) { out[place] = data[from]; });
    return true;
  }

  std::string node_;
  int threads_;
  ElementLines lines_;
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelRequest& request) {
  return std::make_unique<GatherKernel>(request);
}
std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request) {
  return kernel_for_element(request, request.inputs.at(0), [&]<typename Word>(Word) {
    return std::make_unique<GatherElements<Word>>(request);
  });
}
std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request) {
  return std::make_unique<GatherND>(request);
}

}  // namespace autopar::runtime::cpu
