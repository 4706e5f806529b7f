// A small Conv of images as ONNX has them, by the kernel for images whose channels are last.

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/channels_last.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/strided_copy.h"

namespace autopar::runtime::cpu {
namespace {

/// The node as one that reads the same images, and makes such with their channels last.
graph::Node channels_last_node(graph::Node node) {
  node.attributes[channels_second_attribute] = std::int64_t{1};
  return node;
}

std::vector<TensorView> channels_last_outputs(std::vector<TensorView> outputs) {
  outputs[0].shape = as_channels_last(outputs[0].shape);
  return outputs;
}

class SmallConv final : public Kernel {
 public:
  /// `images`: what `conv` makes.
  SmallConv(std::unique_ptr<Kernel> conv, TensorView images, const Shape& out, int threads)
      : conv_(std::move(conv)),
        images_(std::move(images)),
        move_back_(out, as_channels_second(row_major_strides(images_.shape)),
                   row_major_strides(out), static_cast<int>(sizeof(float))),
        threads_(threads) {}

  std::int64_t scratch_bytes() const override {
    return graph::aligned(images_.size_bytes()) + conv_->scratch_bytes();
  }
  bool reads(std::size_t input) const override { return conv_->reads(input); }

  void run(const KernelIo& io) override {
    images_.data = io.scratch;
    conv_->run({.inputs = io.inputs,
                .outputs = {&images_, 1},
                .scratch = io.scratch + graph::aligned(images_.size_bytes())});
    move_back_.run(images_.data, io.outputs[0].data, threads_);
  }

 private:
  std::unique_ptr<Kernel> conv_;
  TensorView images_;
  StridedCopy move_back_;
  int threads_;
};

}  // namespace

bool serves_small_conv(const KernelRequest& request) {
  const std::size_t rank = request.inputs[0].shape.size();
  if (!request.is_constant(1) || (rank != 3 && rank != 4) ||
      !is_small_conv(request.node, request.inputs, request.outputs))
    return false;
  return serves_direct_conv(channels_last_node(request.node), request.inputs,
                            channels_last_outputs(request.outputs));
}

std::unique_ptr<Kernel> make_small_conv(const KernelRequest& request) {
  const graph::Node node = channels_last_node(request.node);
  const KernelRequest last{.node = node,
                           .inputs = request.inputs,
                           .outputs = channels_last_outputs(request.outputs),
                           .device = request.device,
                           .constants = request.constants,
                           .is_own = request.is_own,
                           .store = request.store};
  return std::make_unique<SmallConv>(make_direct_conv(last), last.outputs[0],
                                     request.outputs[0].shape, request.device.threads());
}

}  // namespace autopar::runtime::cpu
