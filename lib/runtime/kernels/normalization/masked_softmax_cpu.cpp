// Softmax over the last dimension of scaled scores under a mask (passes/passes.h).

#include <algorithm>
#include <limits>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/softmax_row.h"

namespace autopar::runtime::cpu {
namespace {

/// Where each row of a broadcast mask begins, by the dimensions before the last.
class MaskRows {
 public:
  MaskRows() = default;
  MaskRows(const KernelRequest& request, const TensorView& mask)
      : shape_(request.inputs[0].shape), strides_(broadcast_strides(mask.shape, shape_)) {
    if (strides_.size() != shape_.size() || shape_.empty())
      fail("node '{}': a mask of {} does not broadcast to {}", request.node.name,
           graph::to_string(mask.shape), graph::to_string(shape_));
    column_stride_ = strides_.back();
    element_bytes_ = graph::bytes_of(mask.type, 1);
    shape_.pop_back();
    strides_.pop_back();
  }

  MaskRow row(const TensorView& mask, std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t d = shape_.size(); d-- > 0; row /= shape_[d])
      offset += row % shape_[d] * strides_[d];
    return {mask.data + offset * element_bytes_, mask.type, column_stride_};
  }

 private:
  Shape shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t column_stride_ = 0;
  std::int64_t element_bytes_ = 0;
};

class MaskedSoftmax final : public Kernel {
 public:
  explicit MaskedSoftmax(const KernelRequest& request)
      : threads_(request.device.threads()),
        float_bytes_(float_bytes(request)),
        scale_(request.node.float_attribute("scale", 1)),
        fill_(request.node.float_attribute("fill", -std::numeric_limits<float>::infinity())),
        nan_to_zero_(request.node.int_attribute("nan_to_zero", 0) != 0) {
    if (is_given(request.inputs, 1)) mask_ = MaskRows(request, request.inputs[1]);
  }

  std::int64_t scratch_bytes() const override { return float_bytes_; }

  void run(const KernelIo& io) override {
    if (io.outputs[0].elements() == 0) return;
    if (io.outputs[0].type == DataType::float64)
      return run_rows(io, io.inputs[0].as<const double>(), io.outputs[0].as<double>());
    FloatCopies copies(io.scratch);
    const float* in = copies.load(io.inputs[0]);
    float* out = copies.target(io.outputs[0]);
    run_rows(io, in, out);
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  template <typename T>
  void run_rows(const KernelIo& io, const T* in, T* out) const {
    const std::int64_t n = io.outputs[0].shape.back();
    const std::int64_t rows = io.outputs[0].elements() / n;
    const bool is_large = rows * n > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const scores = out + row * n;
      std::copy_n(in + row * n, n, scores);
      if (scale_ != 1) scale_row(scores, n, static_cast<T>(scale_));
      if (is_given(io.inputs, 1))
        mask_scores(scores, n, mask_.row(io.inputs[1], row), static_cast<T>(fill_));
      const T sum = exponentials(scores, n);
      if (sum > 0)
        scale_row(scores, n, 1 / sum);
      else
        std::fill_n(scores, n, nan_to_zero_ ? T{0} : std::numeric_limits<T>::quiet_NaN());
    }
  }

  MaskRows mask_;
  int threads_;
  std::int64_t float_bytes_;
  float scale_;
  float fill_;
  bool nan_to_zero_;
};

bool is_served(DataType type) {
  return type == DataType::float32 || type == DataType::float64 || is_half(type);
}

}  // namespace

std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!is_served(type)) fail_type(request, type);
  if (is_given(request.inputs, 1) && request.inputs[1].type != DataType::boolean &&
      !is_served(request.inputs[1].type))
    fail_type(request, request.inputs[1].type);
  return std::make_unique<MaskedSoftmax>(request);
}

}  // namespace autopar::runtime::cpu
