#include <algorithm>
#include <cstring>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/generator/generators.h"
#include "runtime/kernels/generator/kernels.h"

/// Tensors made from shapes and a few numbers.
namespace autopar::runtime::cpu {
namespace {

template <typename T>
class RangeKernel final : public Kernel {
 public:
  void run(const KernelIo& io) override {
    const T start = io.inputs[0].as<const T>()[0];
    const T delta = io.inputs[2].as<const T>()[0];
    T* out = io.outputs[0].as<T>();
    for (std::int64_t i = 0; i < io.outputs[0].elements(); ++i)
      out[i] = functions::Add{}(start, functions::Mul{}(static_cast<T>(i), delta));
  }
};

class EyeKernel final : public Kernel {
 public:
  EyeKernel(std::int64_t diagonal, DataType type, int element_bytes)
      : diagonal_(diagonal), one_(one_of(type)), bytes_(element_bytes) {}
  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    std::memset(out.data, 0, static_cast<std::size_t>(out.size_bytes()));
    for (std::int64_t row = 0; row < out.shape[0]; ++row) {
      const std::int64_t column = row + diagonal_;
      if (column < 0 || column >= out.shape[1]) continue;
      std::memcpy(out.data + (row * out.shape[1] + column) * bytes_, one_.data(),
                  static_cast<std::size_t>(bytes_));
    }
  }

 private:
  std::int64_t diagonal_;
  std::array<std::byte, 8> one_;
  int bytes_;
};

/// Keeps the upper or lower triangle of the last two dimensions and zeroes the rest.
class TriluKernel final : public Kernel {
 public:
  TriluKernel(bool upper, int element_bytes) : upper_(upper), bytes_(element_bytes) {}
  void run(const KernelIo& io) override {
    const Shape& shape = io.outputs[0].shape;
    const std::int64_t columns = shape.back();
    const std::int64_t rows_of_matrix = shape[shape.size() - 2];
    const bool has_k = io.inputs.size() > 1 && io.inputs[1].present();
    const std::int64_t k = has_k ? io.inputs[1].as<const std::int64_t>()[0] : 0;
    const std::int64_t rows = columns == 0 ? 0 : io.outputs[0].elements() / columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      // Column `border` is the first on or above the diagonal (upper), or above it (lower).
      const std::int64_t diagonal = row % rows_of_matrix + k + (upper_ ? 0 : 1);
      const std::int64_t border = std::clamp<std::int64_t>(diagonal, 0, columns);
      const std::int64_t kept_begin = upper_ ? border : 0;
      const std::int64_t kept_end = upper_ ? columns : border;
      copy_row(io, row * columns, columns, kept_begin, kept_end);
    }
  }

 private:
  void copy_row(const KernelIo& io, std::int64_t first, std::int64_t columns,
                std::int64_t kept_begin, std::int64_t kept_end) const {
    std::byte* out = io.outputs[0].data + first * bytes_;
    const std::byte* in = io.inputs[0].data + first * bytes_;
    std::memset(out, 0, static_cast<std::size_t>(columns * bytes_));
    std::memcpy(out + kept_begin * bytes_, in + kept_begin * bytes_,
                static_cast<std::size_t>((kept_end - kept_begin) * bytes_));
  }

  bool upper_;
  int bytes_;
};

/// An index of any numeric type.
template <typename T>
std::int64_t read_index(const std::byte* data, std::int64_t i) {
  return static_cast<std::int64_t>(reinterpret_cast<const T*>(data)[i]);
}
using ReadIndex = std::int64_t (*)(const std::byte*, std::int64_t);

ReadIndex read_index_of(DataType type) {
  ReadIndex found = nullptr;
  visit_type(type, Numbers{}, [&]<typename T>(T) { found = read_index<T>; });
  return found;
}

/// All "off", then "on" where an index points; indices out of range leave a row off.
class OneHotKernel final : public Kernel {
 public:
  explicit OneHotKernel(const KernelRequest& request)
      : bytes_(element_bytes_of(request, request.outputs.at(0))),
        read_(read_index_of(request.inputs.at(0).type)),
        extents_(one_hot_extents(request)) {}

  void run(const KernelIo& io) override {
    const std::byte* values = io.inputs[2].data;
    fill(io.outputs[0].data, values, io.outputs[0].elements(), bytes_);
    for (std::int64_t i = 0; i < io.inputs[0].elements(); ++i) {
      std::int64_t index = read_(io.inputs[0].data, i);
      if (index < 0) index += extents_.extent;
      if (index < 0 || index >= extents_.extent) continue;
      const std::int64_t at = extents_.row_offset(i) + index * extents_.inner;
      fill(io.outputs[0].data + at * bytes_, values + bytes_, 1, bytes_);
    }
  }

 private:
  int bytes_;
  ReadIndex read_;
  AxisExtents extents_;
};

}  // namespace

std::unique_ptr<Kernel> make_range(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(request.outputs.at(0).type, SignedNumbers{},
                  [&]<typename T>(T) { kernel = std::make_unique<RangeKernel<T>>(); }))
    fail_type(request, request.outputs[0].type);
  return kernel;
}

std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request) {
  const TensorView& output = request.outputs.at(0);
  return std::make_unique<EyeKernel>(eye_diagonal(request), output.type,
                                     element_bytes_of(request, output));
}

std::unique_ptr<Kernel> make_trilu(const KernelRequest& request) {
  return std::make_unique<TriluKernel>(keeps_upper_triangle(request),
                                       element_bytes_of(request, request.outputs[0]));
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return std::make_unique<OneHotKernel>(request);
}

}  // namespace autopar::runtime::cpu
