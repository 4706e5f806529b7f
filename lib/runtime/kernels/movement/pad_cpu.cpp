#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/movement/kernels.h"
#include "runtime/kernels/movement/padding.h"

namespace autopar::runtime::cpu {
namespace {

/// Fills the output with the value, then copies what of the input lies inside it.
class ConstantPad final : public Kernel {
 public:
  ConstantPad(const KernelRequest& request, const std::vector<std::int64_t>& before)
      : bytes_(element_bytes_of(request, request.inputs.at(0))),
        inside_(make_inside(request, before)) {}

  void run(const KernelIo& io) override {
    static constexpr std::array<std::byte, sizeof(Word16)> zero{};
    const std::byte* value = is_given(io.inputs, 2) ? io.inputs[2].data : zero.data();
    fill(io.outputs[0].data, value, io.outputs[0].elements(), bytes_);
    inside_->run(io.inputs[0].data + in_offset_ * bytes_, io.outputs[0].data + out_offset_ * bytes_,
                 io.stream);
  }

 private:
  std::unique_ptr<StridedCopy> make_inside(const KernelRequest& request,
                                           const std::vector<std::int64_t>& before) {
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    const Shape in_strides = row_major_strides(from);
    const Shape out_strides = row_major_strides(to);
    Shape inside(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
      const std::int64_t begin = std::max<std::int64_t>(0, before[d]);
      const std::int64_t end = std::min(to[d], before[d] + from[d]);
      inside[d] = std::max<std::int64_t>(0, end - begin);
    }
    // Where nothing of the input is left, it begins nowhere.
    for (std::size_t d = 0; graph::num_elements(inside) > 0 && d < from.size(); ++d) {
      in_offset_ += std::max<std::int64_t>(0, -before[d]) * in_strides[d];
      out_offset_ += std::max<std::int64_t>(0, before[d]) * out_strides[d];
    }
    return request.device.make_strided_copy(inside, in_strides, out_strides, bytes_);
  }

  int bytes_;
  std::int64_t in_offset_ = 0;  ///< elements
  std::int64_t out_offset_ = 0;
  std::unique_ptr<StridedCopy> inside_;
};

/// Copies by a table of source offsets for each dimension.
class ExtensionPad final : public Kernel {
 public:
  ExtensionPad(const KernelRequest& request, const Padding& padding)
      : bytes_(element_bytes_of(request, request.inputs.at(0))) {
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    const Shape strides = row_major_strides(from);
    for (std::size_t d = 0; d < from.size(); ++d) {
      auto& offsets = offsets_.emplace_back();
      for (std::int64_t i = 0; i < to[d]; ++i)
        offsets.push_back(extended_index(padding.mode, i - padding.before[d], from[d]) *
                          strides[d]);
    }
    if (offsets_.empty()) offsets_.push_back({0});
    for (std::size_t d = 0; d + 1 < offsets_.size(); ++d)
      rows_ *= static_cast<std::int64_t>(offsets_[d].size());
  }

  void run(const KernelIo& io) override {
    std::byte* out = io.outputs[0].data;
    for (std::int64_t row = 0; row < rows_; ++row) {
      std::int64_t base = 0;
      std::int64_t rest = row;
      for (std::size_t d = offsets_.size() - 1; d-- > 0;) {
        const auto extent = static_cast<std::int64_t>(offsets_[d].size());
        base += offsets_[d][static_cast<std::size_t>(rest % extent)];
        rest /= extent;
      }
      for (const std::int64_t offset : offsets_.back()) {
        fill(out, io.inputs[0].data + (base + offset) * bytes_, 1, bytes_);
        out += bytes_;
      }
    }
  }

 private:
  int bytes_;
  std::int64_t rows_ = 1;
  std::vector<std::vector<std::int64_t>> offsets_;  ///< in elements, by dimension
};

}  // namespace

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const Padding padding = padding_of(request);
  if (request.outputs.at(0).elements() == 0) return std::make_unique<NoWork>();
  if (padding.mode == PadMode::constant)
    return std::make_unique<ConstantPad>(request, padding.before);
  return std::make_unique<ExtensionPad>(request, padding);
}

}  // namespace autopar::runtime::cpu
