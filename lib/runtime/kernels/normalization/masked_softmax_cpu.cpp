// Softmax over the last dimension of scaled scores under a mask (passes/passes.h).

#include <algorithm>
#include <limits>

#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/softmax_row.h"

namespace autopar::runtime::cpu {
namespace {

/// What a MaskedSoftmax says.
struct MaskedRows {
  int threads;
  float scale;
  float fill;
  bool nan_to_zero;
  /// The mask's strides along the dimensions before the last, and along that; of `shape` there.
  Shape shape;
  std::vector<std::int64_t> strides;
  std::int64_t column_stride = 0;

  explicit MaskedRows(const KernelRequest& request)
      : threads(request.device.threads()),
        scale(request.node.float_attribute("scale", 1)),
        fill(request.node.float_attribute("fill", -std::numeric_limits<float>::infinity())),
        nan_to_zero(request.node.int_attribute("nan_to_zero", 0) != 0) {
    if (!is_given(request.inputs, 1)) return;
    const TensorView& mask = request.inputs[1];
    shape = request.inputs[0].shape;
    strides = broadcast_strides(mask.shape, shape);
    if (strides.size() != shape.size() || shape.empty())
      fail("node '{}': a mask of {} does not broadcast to {}", request.node.name,
           graph::to_string(mask.shape), graph::to_string(shape));
    column_stride = strides.back();
    shape.pop_back();
    strides.pop_back();
  }

  MaskRow mask_of(const TensorView& mask, std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t d = shape.size(); d-- > 0; row /= shape[d])
      offset += row % shape[d] * strides[d];
    return {mask.data + offset * graph::bytes_of(mask.type, 1), mask.type, column_stride};
  }

  template <typename T>
  void run(const KernelIo& io, const T* in, T* out) const {
    const std::int64_t n = io.outputs[0].shape.back();
    const std::int64_t rows = io.outputs[0].elements() / n;
    const bool is_large = rows * n > 16384;
    for_in_threads(is_large ? threads : 1, rows, [&](std::int64_t row) {
      T* const scores = out + row * n;
      std::copy_n(in + row * n, n, scores);
      if (scale != 1) scale_row(scores, n, static_cast<T>(scale));
      if (is_given(io.inputs, 1))
        mask_scores(scores, n, mask_of(io.inputs[1], row), static_cast<T>(fill));
      const T sum = exponentials(scores, n);
      if (sum > 0)
        scale_row(scores, n, 1 / sum);
      else
        std::fill_n(scores, n, nan_to_zero ? T{0} : std::numeric_limits<T>::quiet_NaN());
    });
  }
};

}  // namespace

std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request) {
  require_type(request, request.inputs.at(0).type, AllFloats{});
  if (is_given(request.inputs, 1) && request.inputs[1].type != DataType::boolean)
    require_type(request, request.inputs[1].type, AllFloats{});
  const auto run = [of = MaskedRows(request)](const KernelIo& io) {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    if (out.type == DataType::float64)
      return of.run(io, io.inputs[0].as<const double>(), out.as<double>());
    FloatCopies copies(io.scratch);
    const float* in = copies.load(io.inputs[0]);
    float* target = copies.target(out);
    of.run(io, in, target);
    FloatCopies::store(target, out);
  };
  return make_kernel(run, float_bytes(request));
}

}  // namespace autopar::runtime::cpu
