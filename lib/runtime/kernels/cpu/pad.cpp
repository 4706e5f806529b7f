#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/device.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/strided_copy.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {
namespace {

/// Elements put before each dimension; the output's shape tells those after. Negative ones crop.
std::vector<std::int64_t> pads_before(const KernelRequest& request) {
  const std::size_t rank = request.inputs.at(0).shape.size();
  const auto pads = constant_integers(request, 1, "pads");
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  axes = constant_integers(request, 3, "axes", std::move(axes));
  if (pads.size() != 2 * axes.size())
    fail("node '{}': Pad needs two pads an axis, and has {} for {} axes", request.node.name,
         pads.size(), axes.size());
  std::vector<std::int64_t> before(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i)
    before[checked_axis(request, axes[i], rank)] = pads[i];
  return before;
}

/// Fills the output with the value, then copies what of the input lies inside it.
class ConstantPad final : public Kernel {
 public:
  ConstantPad(const KernelRequest& request, const std::vector<std::int64_t>& before)
      : bytes_(element_bytes_of(request, request.inputs.at(0))),
        inside_(make_inside(request, before)),
        threads_(request.device.threads()) {}

  void run(const KernelIo& io) override {
    static constexpr std::array<std::byte, 8> zero{};
    const bool has_value = io.inputs.size() > 2 && io.inputs[2].present();
    const std::byte* value = has_value ? io.inputs[2].data : zero.data();
    fill(io.outputs[0].data, value, io.outputs[0].elements(), bytes_);
    inside_.run(io.inputs[0].data + in_offset_ * bytes_, io.outputs[0].data + out_offset_ * bytes_,
                threads_);
  }

 private:
  StridedCopy make_inside(const KernelRequest& request, const std::vector<std::int64_t>& before) {
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    const Shape in_strides = row_major_strides(from);
    const Shape out_strides = row_major_strides(to);
    Shape inside(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
      const std::int64_t begin = std::max<std::int64_t>(0, before[d]);
      const std::int64_t end = std::min(to[d], before[d] + from[d]);
      inside[d] = std::max<std::int64_t>(0, end - begin);
      in_offset_ += (begin - before[d]) * in_strides[d];
      out_offset_ += begin * out_strides[d];
    }
    return {std::move(inside), in_strides, out_strides, bytes_};
  }

  int bytes_;
  std::int64_t in_offset_ = 0;  ///< elements
  std::int64_t out_offset_ = 0;
  StridedCopy inside_;
  int threads_;
};

/// The input element that stands at position `i` (counted from the input's first) of an endless
/// extension of `extent` elements.
using Extension = std::int64_t (*)(std::int64_t i, std::int64_t extent);

std::int64_t edge(std::int64_t i, std::int64_t extent) {
  return std::clamp<std::int64_t>(i, 0, extent - 1);
}
std::int64_t wrap(std::int64_t i, std::int64_t extent) { return ((i % extent) + extent) % extent; }
std::int64_t reflect(std::int64_t i, std::int64_t extent) {
  if (extent == 1) return 0;
  const std::int64_t folded = wrap(i, 2 * (extent - 1));
  return folded < extent ? folded : 2 * (extent - 1) - folded;
}

/// Copies by a table of source offsets for each dimension.
class ExtensionPad final : public Kernel {
 public:
  ExtensionPad(const KernelRequest& request, const std::vector<std::int64_t>& before,
               Extension extension)
      : bytes_(element_bytes_of(request, request.inputs.at(0))) {
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    const Shape strides = row_major_strides(from);
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] == 0 && to[d] > 0)
        fail("node '{}': Pad cannot extend an empty dimension", request.node.name);
      auto& offsets = offsets_.emplace_back();
      for (std::int64_t i = 0; i < to[d]; ++i)
        offsets.push_back(extension(i - before[d], from[d]) * strides[d]);
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
  const auto before = pads_before(request);
  const std::string mode = request.node.string_attribute("mode", "constant");
  if (mode == "constant") return std::make_unique<ConstantPad>(request, before);
  if (mode == "edge") return std::make_unique<ExtensionPad>(request, before, edge);
  if (mode == "reflect") return std::make_unique<ExtensionPad>(request, before, reflect);
  if (mode == "wrap") return std::make_unique<ExtensionPad>(request, before, wrap);
  fail("node '{}': mode '{}' of Pad has no CPU kernel", request.node.name, mode);
}

}  // namespace autopar::runtime::cpu
