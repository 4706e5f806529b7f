#include <algorithm>
#include <limits>

#include "runtime/kernels/common/channels_last.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/pooling.h"

namespace autopar::runtime::cpu {
namespace {

using ImageLayout = dnnl::memory::desc(const Shape& shape);

/// Null where oneDNN has no such pooling.
std::unique_ptr<Kernel> make_primitive(const KernelRequest& request, const Pooling& pooling,
                                       dnnl::algorithm algorithm, ImageLayout* layout) {
  const Slide& slide = pooling.slide;
  try {
    return make_onednn_unary(describe_primitive<onednn::Pooling>(
        user_scratchpad(), dnnl::prop_kind::forward_inference, algorithm,
        layout(request.inputs[0].shape), layout(request.outputs[0].shape), slide.strides,
        pooling.taps, slide.gaps(), slide.begin_pads, slide.end_pads));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

/// A pooling of images with their channels last, into which order they are brought and back.
class ReorderedPooling final : public Kernel {
 public:
  ReorderedPooling(const KernelRequest& request, std::unique_ptr<Kernel> pooling)
      : in_(float_layout(request.inputs[0].shape), channels_last_layout(request.inputs[0].shape)),
        out_(channels_last_layout(request.outputs[0].shape),
             float_layout(request.outputs[0].shape)),
        pooling_(std::move(pooling)) {}

  std::int64_t scratch_bytes() const override {
    return in_.bytes() + out_.bytes() +
           std::max({in_.scratch_bytes(), pooling_->scratch_bytes(), out_.scratch_bytes()});
  }

  void run(const KernelIo& io) override {
    TensorView image = io.inputs[0];
    TensorView pooled = io.outputs[0];
    image.data = io.scratch;
    pooled.data = image.data + in_.bytes();
    std::byte* const scratch = pooled.data + out_.bytes();
    in_.run(io.inputs[0].data, image.data, scratch);
    pooling_->run({{&image, 1}, {&pooled, 1}, scratch});
    out_.run(pooled.data, io.outputs[0].data, scratch);
  }

 private:
  Reordering in_;
  Reordering out_;
  std::unique_ptr<Kernel> pooling_;
};

/// Whether windows overlap so much, on so many channels, that it pays to reorder the images: oneDNN
/// goes through windows element by element where channels are second.
bool pays_to_reorder(const KernelRequest& request, const Pooling& pooling) {
  constexpr std::int64_t least_channels = 8;
  const Windows& windows = pooling.windows;
  const std::int64_t visits = windows.out_places() * windows.tap_places();
  return request.inputs[0].shape[1] >= least_channels && windows.out_places() > 1 &&
         visits > windows.in_places() + windows.out_places();
}

/// Null where oneDNN has no such pooling.
std::unique_ptr<Kernel> try_onednn_pooling(const KernelRequest& request, const Pooling& pooling,
                                           dnnl::algorithm algorithm, ImageLayout* layout) {
  if (layout == float_layout && pays_to_reorder(request, pooling))
    if (auto last = make_primitive(request, pooling, algorithm, channels_last_layout))
      return std::make_unique<ReorderedPooling>(request, std::move(last));
  return make_primitive(request, pooling, algorithm, layout);
}

/// oneDNN wants windows that see something, and no padding behind that is negative.
bool suits_onednn(const KernelRequest& request, const Pooling& pooling) {
  const std::size_t spatial = pooling.taps.size();
  return request.inputs[0].type == DataType::float32 && request.outputs[0].elements() > 0 &&
         request.inputs[0].elements() > 0 && spatial >= 1 && pooling.sees_image &&
         std::ranges::all_of(pooling.slide.end_pads, [](std::int64_t pad) { return pad >= 0; });
}

/// A maximum pool of images whose channels are last, by its definition.
class PlainChannelsLastMaxPool final : public Kernel {
 public:
  explicit PlainChannelsLastMaxPool(const Pooling& pooling) : windows_(pooling.windows) {}

  void run(const KernelIo& io) override {
    const std::int64_t images = io.inputs[0].shape.front();
    const std::int64_t channels = io.inputs[0].shape.back();
    const std::int64_t places = windows_.out_places();
    const auto* in = io.inputs[0].as<const float>();
    auto* out = io.outputs[0].as<float>();
    for (std::int64_t i = 0; i < images * places; ++i) {
      const TapsInside taps(windows_, Place(i % places, windows_.out));
      const float* image = in + i / places * windows_.in_places() * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        std::int64_t largest = -1;
        taps.visit(windows_, [&](std::int64_t offset) {
          const std::int64_t at = offset * channels + c;
          if (largest < 0 || image[at] > image[largest]) largest = at;
        });
        out[i * channels + c] = image[largest];
      }
    }
  }

 private:
  Windows windows_;
};

/// A window's maximum begins with the lowest number, finite in oneDNN and -inf in our own rows,
/// which stays where the window has nothing but -inf or NaN: then the image is pooled again, by the
/// kernel that serves all types.
class CheckedMaxPool : public Kernel {
 public:
  CheckedMaxPool(std::unique_ptr<Kernel> fast, std::unique_ptr<Kernel> exact)
      : fast_(std::move(fast)), exact_(std::move(exact)) {}

  void run(const KernelIo& io) override {
    fast_->run(io);
    const auto* out = io.outputs[0].as<const float>();
    const float* const end = out + io.outputs[0].elements();
    // Counted without a branch, which is a loop over vectors.
    std::int64_t doubtful = 0;
    for (; out != end; ++out) doubtful += *out <= std::numeric_limits<float>::lowest() ? 1 : 0;
    if (doubtful != 0) exact_->run(io);
  }
  std::int64_t scratch_bytes() const override {
    return std::max(fast_->scratch_bytes(), exact_->scratch_bytes());
  }
  OwnMemory own_memory() const override { return fast_->own_memory(); }

 private:
  std::unique_ptr<Kernel> fast_;
  std::unique_ptr<Kernel> exact_;
};

/// Null where oneDNN has no such pooling.
std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request, ImageLayout* layout) {
  const Pooling pooling(request);
  if (!suits_onednn(request, pooling)) return nullptr;
  if (request.node.int_attribute("count_include_pad", 0) == 0)
    return try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_avg_exclude_padding,
                              layout);
  // With padding counted, oneDNN divides by whole windows.
  for (int d = 0; d < Windows::dimensions; ++d) {
    const Windows& windows = pooling.windows;
    const int end = (windows.out[d] - 1) * windows.strides[d] - windows.pads[d] +
                    (windows.taps[d] - 1) * windows.dilations[d] + 1;
    if (end > pooling.padded_ends[d]) return nullptr;
  }
  return try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_avg_include_padding, layout);
}

}  // namespace

std::unique_ptr<Kernel> make_float_average_pool(const KernelRequest& request) {
  if (auto rows = make_average_pool_by_rows(request)) return rows;
  return make_average_pool(request, float_layout);
}

std::unique_ptr<Kernel> make_channels_last_average_pool(const KernelRequest& request) {
  auto kernel = make_average_pool(with_channels_second(request), channels_last_layout);
  if (!kernel) fail("node '{}': oneDNN has no such pooling", request.node.name);
  return kernel;
}

std::unique_ptr<Kernel> make_float_max_pool(const KernelRequest& request,
                                            std::unique_ptr<Kernel> other) {
  const Pooling pooling(request);
  auto fast = make_max_pool_by_rows(request);
  if (!fast && (is_given(request.outputs, 1) || !suits_onednn(request, pooling))) return other;
  if (!fast)
    fast = try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_max, float_layout);
  if (!fast) return other;
  return std::make_unique<CheckedMaxPool>(std::move(fast), std::move(other));
}

std::unique_ptr<Kernel> make_channels_last_max_pool(const KernelRequest& last) {
  const KernelRequest request = with_channels_second(last);
  const Pooling pooling(request);
  auto plain = std::make_unique<PlainChannelsLastMaxPool>(pooling);
  auto fast =
      try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_max, channels_last_layout);
  if (!fast) return plain;
  return std::make_unique<CheckedMaxPool>(std::move(fast), std::move(plain));
}

/// What oneDNN always has: windows that stay within the padding, and each of which sees something.
bool serves_channels_last_pool(const graph::Node& node, std::span<const TensorView> inputs,
                               std::span<const TensorView> outputs) {
  const std::vector<std::int64_t> taps = node.ints_attribute("kernel_shape", {});
  const std::vector<std::int64_t> pads = node.ints_attribute("pads", {});
  bool sees_image = true;
  for (std::size_t i = 0; i < pads.size() && !taps.empty(); ++i)
    sees_image = sees_image && pads[i] < taps[i % taps.size()];
  const auto is_one = [](std::int64_t dilation) { return dilation == 1; };
  const std::size_t rank = inputs[0].shape.size();
  return inputs[0].type == DataType::float32 && (rank == 3 || rank == 4) &&
         inputs[0].elements() > 0 && outputs.size() == 1 && outputs[0].elements() > 0 &&
         taps.size() == rank - 2 && sees_image && node.int_attribute("ceil_mode", 0) == 0 &&
         node.string_attribute("auto_pad", "NOTSET") == "NOTSET" &&
         std::ranges::all_of(node.ints_attribute("dilations", {}), is_one);
}

}  // namespace autopar::runtime::cpu
