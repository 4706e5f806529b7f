#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/elementwise_functions.h"
#include "runtime/kernels/kernel_arguments.h"

/// Tensors made from shapes and a few numbers.
namespace autopar::runtime::cpu {
namespace {

/// A tensor known when the kernel is made.
class FixedKernel final : public Kernel {
 public:
  explicit FixedKernel(graph::Tensor tensor) : tensor_(std::move(tensor)) {}
  void run(const KernelIo& io) override {
    const auto bytes = tensor_.bytes();
    require(static_cast<std::int64_t>(bytes.size()) == io.outputs[0].size_bytes(),
            "a fixed tensor fills its output");
    if (!bytes.empty()) std::memcpy(io.outputs[0].data, bytes.data(), bytes.size());
  }

 private:
  graph::Tensor tensor_;
};

/// One element, repeated.
class FillKernel final : public Kernel {
 public:
  explicit FillKernel(graph::Tensor element) : element_(std::move(element)) {}
  void run(const KernelIo& io) override {
    fill(io.outputs[0].data, element_.bytes().data(), io.outputs[0].elements(),
         graph::bits_of(element_.type()) / 8);
  }

 private:
  graph::Tensor element_;
};

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

/// The element 1 of a type, as it lies in memory.
std::array<std::byte, 8> one_of(DataType type) {
  std::array<std::byte, 8> bytes{};
  visit_type(stored_type(type), Joined<Numbers, Halves>{}, [&]<typename T>(T) {
    const T one = narrowed<T>(1.0F);
    std::memcpy(bytes.data(), &one, sizeof(one));
  });
  return bytes;
}

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
        read_(read_index_of(request.inputs.at(0).type)) {
    const Shape& shape = request.outputs[0].shape;
    if (read_ == nullptr)
      fail("node '{}': OneHot of {} indices has no CPU kernel", request.node.name,
           name_of(request.inputs[0].type));
    const std::size_t axis =
        checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
    depth_ = shape[axis];
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner_ *= shape[d];
  }

  void run(const KernelIo& io) override {
    const std::byte* values = io.inputs[2].data;
    fill(io.outputs[0].data, values, io.outputs[0].elements(), bytes_);
    for (std::int64_t i = 0; i < io.inputs[0].elements(); ++i) {
      std::int64_t index = read_(io.inputs[0].data, i);
      if (index < 0) index += depth_;
      if (index < 0 || index >= depth_) continue;
      const std::int64_t at = (i / inner_ * depth_ + index) * inner_ + i % inner_;
      fill(io.outputs[0].data + at * bytes_, values + bytes_, 1, bytes_);
    }
  }

 private:
  int bytes_;
  ReadIndex read_;
  std::int64_t depth_ = 0;
  std::int64_t inner_ = 1;
};

std::unique_ptr<Kernel> make_fixed_integers(const KernelRequest& request,
                                            std::span<const std::int64_t> values) {
  return std::make_unique<FixedKernel>(
      graph::Tensor::of_int64(request.outputs.at(0).shape, values));
}

}  // namespace

std::unique_ptr<Kernel> make_constant(const KernelRequest& request) {
  const Shape& shape = request.outputs.at(0).shape;
  const graph::Node& node = request.node;
  for (const auto& [key, attribute] : node.attributes) {
    if (const auto* tensor = std::get_if<graph::Tensor>(&attribute))
      return std::make_unique<FixedKernel>(tensor->contiguous_copy());
    if (const auto* number = std::get_if<std::int64_t>(&attribute))
      return make_fixed_integers(request, {number, 1});
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute))
      return make_fixed_integers(request, *numbers);
    if (const auto* real = std::get_if<float>(&attribute))
      return std::make_unique<FixedKernel>(graph::Tensor::of_float(shape, {real, 1}));
    if (const auto* reals = std::get_if<std::vector<float>>(&attribute))
      return std::make_unique<FixedKernel>(graph::Tensor::of_float(shape, *reals));
  }
  fail("node '{}': this form of Constant has no CPU kernel", node.name);
}

std::unique_ptr<Kernel> make_constant_of_shape(const KernelRequest& request) {
  const int bytes = element_bytes_of(request, request.outputs.at(0));
  const auto found = request.node.attributes.find("value");
  const auto* value =
      found == request.node.attributes.end() ? nullptr : std::get_if<graph::Tensor>(&found->second);
  graph::Tensor element =
      value != nullptr ? value->contiguous_copy() : graph::Tensor::zeros(DataType::float32, {1});
  if (element.size_bytes() != bytes)
    fail("node '{}': the value of ConstantOfShape must be one element of its output's type",
         request.node.name);
  return std::make_unique<FillKernel>(std::move(element));
}

std::unique_ptr<Kernel> make_range(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(request.outputs.at(0).type, SignedNumbers{},
                  [&]<typename T>(T) { kernel = std::make_unique<RangeKernel<T>>(); }))
    fail_type(request, request.outputs[0].type);
  return kernel;
}

std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request) {
  const TensorView& output = request.outputs.at(0);
  if (output.shape.size() != 2) fail("node '{}': EyeLike makes a matrix", request.node.name);
  return std::make_unique<EyeKernel>(request.node.int_attribute("k", 0), output.type,
                                     element_bytes_of(request, output));
}

std::unique_ptr<Kernel> make_trilu(const KernelRequest& request) {
  const TensorView& output = request.outputs.at(0);
  if (output.shape.size() < 2)
    fail("node '{}': Trilu needs at least two dimensions", request.node.name);
  return std::make_unique<TriluKernel>(request.node.int_attribute("upper", 1) != 0,
                                       element_bytes_of(request, output));
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return std::make_unique<OneHotKernel>(request);
}

std::unique_ptr<Kernel> make_shape(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = clamped(request.node.int_attribute("start", 0));
  const std::int64_t end = std::max(start, clamped(request.node.int_attribute("end", rank)));
  return make_fixed_integers(request,
                             std::span(shape).subspan(static_cast<std::size_t>(start),
                                                      static_cast<std::size_t>(end - start)));
}

std::unique_ptr<Kernel> make_size(const KernelRequest& request) {
  const std::int64_t elements = request.inputs.at(0).elements();
  return make_fixed_integers(request, {&elements, 1});
}

}  // namespace autopar::runtime::cpu
