#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/in_threads.h"
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

/// Copies by a table of source offsets for each dimension; what of a row lies inside the input, at
/// once.
template <typename Word>
class ExtensionPad final : public Kernel {
 public:
  ExtensionPad(const KernelRequest& request, const Padding& padding)
      : threads_(request.device.threads()) {
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    const Shape strides = row_major_strides(from);
    for (std::size_t d = 0; d < from.size(); ++d) {
      auto& offsets = offsets_.emplace_back();
      for (std::int64_t i = 0; i < to[d]; ++i)
        offsets.push_back(extended_index(padding.mode, i - padding.before[d], from[d]) *
                          strides[d]);
    }
    if (offsets_.empty()) {
      offsets_.push_back({0});
      return;
    }
    for (std::size_t d = 0; d + 1 < offsets_.size(); ++d)
      rows_ *= static_cast<std::int64_t>(offsets_[d].size());
    inside_begin_ = std::max<std::int64_t>(0, padding.before.back());
    inside_end_ = std::min(to.back(), padding.before.back() + from.back());
  }

  void run(const KernelIo& io) override {
    const auto* const in = io.inputs[0].as<const Word>();
    auto* const out = io.outputs[0].as<Word>();
    const auto columns = static_cast<std::int64_t>(offsets_.back().size());
    for_in_threads(
        rows_ * columns >= parallel_elements ? threads_ : 1, rows_,
        [&](std::int64_t row) { extend_row(in + offset_of(row), out + row * columns, columns); });
  }

 private:
  static constexpr std::int64_t parallel_elements = 32 * 1024;

  std::int64_t offset_of(std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t d = offsets_.size() - 1; d-- > 0;) {
      const auto extent = static_cast<std::int64_t>(offsets_[d].size());
      offset += offsets_[d][static_cast<std::size_t>(row % extent)];
      row /= extent;
    }
    return offset;
  }

  void extend_row(const Word* in, Word* out, std::int64_t columns) const {
    const std::int64_t* const offsets = offsets_.back().data();
    const auto extend = [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = in[offsets[i]];
    };
    if (inside_begin_ >= inside_end_) return extend(0, columns);
    extend(0, inside_begin_);
    std::copy_n(in + offsets[inside_begin_], inside_end_ - inside_begin_, out + inside_begin_);
    extend(inside_end_, columns);
  }

  int threads_;
  std::int64_t rows_ = 1;
  std::int64_t inside_begin_ = 0;  ///< in a row of the output
  std::int64_t inside_end_ = 0;
  std::vector<std::vector<std::int64_t>> offsets_;  ///< in elements, by dimension
};

}  // namespace

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const Padding padding = padding_of(request);
  if (request.outputs.at(0).elements() == 0) return std::make_unique<NoWork>();
  if (padding.mode == PadMode::constant)
    return std::make_unique<ConstantPad>(request, padding.before);
  return kernel_for_element(request, request.inputs[0], [&]<typename Word>(Word) {
    return std::make_unique<ExtensionPad<Word>>(request, padding);
  });
}

}  // namespace autopar::runtime::cpu
