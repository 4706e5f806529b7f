// Each operator is a list of strided copies, but for Compress.

#include <algorithm>
#include <numeric>

#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime {
namespace {

/// From an input to an output, each from an offset in bytes on.
struct Move {
  std::size_t input = 0;
  std::int64_t in_offset = 0;
  std::size_t output = 0;
  std::int64_t out_offset = 0;
  CopyLayout layout;
};

class MoveKernel final : public Kernel {
 public:
  MoveKernel(Device& device, std::vector<Move> moves)
      : moves_(std::move(moves)), places_(moves_.size()) {
    std::vector<CopyLayout> layouts;
    for (Move& move : moves_) layouts.push_back(std::move(move.layout));
    copies_ = device.make_strided_copies(std::move(layouts));
  }

  void run(const KernelIo& io) override {
    for (std::size_t i = 0; i < moves_.size(); ++i)
      places_[i] = {io.inputs[moves_[i].input].data + moves_[i].in_offset,
                    io.outputs[moves_[i].output].data + moves_[i].out_offset};
    copies_->run(places_, io.stream);
  }

 private:
  std::vector<Move> moves_;
  std::unique_ptr<StridedCopies> copies_;
  std::vector<CopyPlace> places_;
};

/// Input 0 read with these strides, element by element of `shape`, into output 0.
std::unique_ptr<Kernel> make_gathering_move(const KernelRequest& request, const Shape& shape,
                                            std::vector<std::int64_t> in_strides,
                                            std::int64_t in_offset_elements = 0) {
  const int bytes = element_bytes_of(request, request.inputs.at(0));
  Move move{.in_offset = in_offset_elements * bytes,
            .layout = {shape, std::move(in_strides), row_major_strides(shape), bytes}};
  return std::make_unique<MoveKernel>(request.device, std::vector{std::move(move)});
}

/// Input 0, seen as `shape`, with its dimensions in the order `permutation`.
std::unique_ptr<Kernel> make_permutation(const KernelRequest& request, const Shape& shape,
                                         const std::vector<std::int64_t>& permutation) {
  StridedShape read = permuted(shape, permutation);
  return make_gathering_move(request, read.dims, std::move(read.strides));
}

/// The bytes of input 0; and of Dropout, which does nothing outside of training, the mask that
/// keeps all.
class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(const KernelRequest& request)
      : device_(request.device),
        copy_(device_.make_strided_copy({request.outputs.at(0).size_bytes()}, {1}, {1}, 1)) {}

  void run(const KernelIo& io) override {
    copy_->run(io.inputs[0].data, io.outputs[0].data, io.stream);
    if (is_given(io.outputs, 1))
      device_.fill(io.outputs[1].data, std::byte{1}, io.outputs[1].size_bytes(), io.stream);
  }

 private:
  Device& device_;
  std::unique_ptr<StridedCopy> copy_;
};

/// `whole` and its parts along the node's axis: moved to them, or together.
std::unique_ptr<Kernel> make_part_moves(const KernelRequest& request, const TensorView& whole,
                                        std::span<const TensorView> parts, bool splits) {
  const std::size_t axis =
      checked_axis(request, request.node.int_attribute("axis", 0), whole.shape.size());
  const int bytes = element_bytes_of(request, whole);
  const Shape strides = row_major_strides(whole.shape);
  std::vector<Move> moves;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape;
    const Shape own_strides = row_major_strides(shape);
    const std::int64_t offset = begin * strides[axis] * bytes;
    if (splits)
      moves.push_back({0, offset, i, 0, {shape, strides, own_strides, bytes}});
    else
      moves.push_back({i, 0, 0, offset, {shape, own_strides, strides, bytes}});
    begin += shape[axis];
  }
  return std::make_unique<MoveKernel>(request.device, std::move(moves));
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  if (request.inputs.at(0).size_bytes() != request.outputs.at(0).size_bytes())
    fail("node '{}': {} changes the number of elements", request.node.name,
         qualified_op_type(request.node));
  return std::make_unique<CopyKernel>(request);
}

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  if (is_given(request.inputs, 2) &&
      (!request.is_constant(2) || request.inputs[2].as<const std::uint8_t>()[0] != 0))
    fail("node '{}': Dropout in training mode has no kernel", request.node.name);
  return std::make_unique<CopyKernel>(request);
}

std::unique_ptr<Kernel> make_transpose(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  std::vector<std::int64_t> permutation(shape.size());
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  permutation = request.node.ints_attribute("perm", std::move(permutation));
  for (std::int64_t& axis : permutation)
    axis = static_cast<std::int64_t>(checked_axis(request, axis, shape.size()));
  return make_permutation(request, shape, permutation);
}

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto starts = constant_integers(request, 1, "starts");
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = constant_integers(request, 3, "axes", std::move(axes));
  const auto steps =
      constant_integers(request, 4, "steps", std::vector<std::int64_t>(starts.size(), 1));
  std::vector<std::int64_t> strides = row_major_strides(shape);
  std::int64_t offset = 0;
  if (axes.size() != starts.size() || steps.size() != starts.size())
    fail("node '{}': starts, axes and steps of Slice differ in length", request.node.name);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = checked_axis(request, axes[i], shape.size());
    if (steps[i] == 0) fail("node '{}': a step of Slice is 0", request.node.name);
    const std::int64_t start = starts[i] < 0 ? starts[i] + shape[axis] : starts[i];
    const std::int64_t last = steps[i] > 0 ? shape[axis] : shape[axis] - 1;
    offset += std::clamp<std::int64_t>(start, 0, std::max<std::int64_t>(0, last)) * strides[axis];
    // One element needs no step, which may be as large as it likes.
    strides[axis] = request.outputs.at(0).shape[axis] > 1 ? strides[axis] * steps[i] : 0;
  }
  return make_gathering_move(request, request.outputs.at(0).shape, std::move(strides), offset);
}

std::unique_ptr<Kernel> make_split(const KernelRequest& request) {
  for (std::size_t i = 0; i < request.outputs.size(); ++i)
    if (!request.outputs[i].present())
      fail("node '{}': Split leaves output {} out", request.node.name, i);
  return make_part_moves(request, request.inputs.at(0), request.outputs, true);
}

std::unique_ptr<Kernel> make_concat(const KernelRequest& request) {
  return make_part_moves(request, request.outputs.at(0), request.inputs, false);
}

std::unique_ptr<Kernel> make_expand(const KernelRequest& request) {
  const Shape& to = request.outputs.at(0).shape;
  std::vector<std::int64_t> strides = broadcast_strides(request.inputs.at(0).shape, to);
  if (strides.size() != to.size())
    fail("node '{}': {} does not expand to {}", request.node.name,
         graph::to_string(request.inputs[0].shape), graph::to_string(to));
  return make_gathering_move(request, to, std::move(strides));
}

/// Each dimension becomes two, the repeats outside with stride 0.
std::unique_ptr<Kernel> make_tile(const KernelRequest& request) {
  const Shape& from = request.inputs.at(0).shape;
  const Shape& to = request.outputs.at(0).shape;
  const Shape strides = row_major_strides(from);
  Shape shape;
  std::vector<std::int64_t> in_strides;
  for (std::size_t d = 0; d < from.size(); ++d) {
    shape.insert(shape.end(), {from[d] == 0 ? 0 : to[d] / from[d], from[d]});
    in_strides.insert(in_strides.end(), {0, strides[d]});
  }
  return make_gathering_move(request, shape, std::move(in_strides));
}

std::unique_ptr<Kernel> make_depth_to_space(const KernelRequest& request) {
  const Shape& s = request.inputs.at(0).shape;
  const std::int64_t block = request.node.int_attribute("blocksize", 1);
  const std::int64_t depth = s.at(1) / (block * block);
  if (request.node.string_attribute("mode", "DCR") == "CRD")
    return make_permutation(request, {s[0], depth, block, block, s[2], s[3]}, {0, 1, 4, 2, 5, 3});
  return make_permutation(request, {s[0], block, block, depth, s[2], s[3]}, {0, 3, 4, 1, 5, 2});
}

std::unique_ptr<Kernel> make_space_to_depth(const KernelRequest& request) {
  const Shape& s = request.inputs.at(0).shape;
  const std::int64_t block = request.node.int_attribute("blocksize", 1);
  const Shape blocks{s[0], s[1], s[2] / block, block, s[3] / block, block};
  if (request.node.string_attribute("mode", "DCR") == "CRD")
    return make_permutation(request, blocks, {0, 1, 3, 5, 2, 4});
  return make_permutation(request, blocks, {0, 3, 5, 1, 2, 4});
}

/// A Gather of what the condition keeps.
std::unique_ptr<Kernel> make_compress(const KernelRequest& request) {
  const TensorView& data = request.inputs.at(0);
  const TensorView& condition = request.inputs.at(1);
  if (!request.is_constant(1) || condition.type != DataType::boolean)
    fail("node '{}': the condition of Compress must be constant bools", request.node.name);
  const bool is_flat = !request.node.has_attribute("axis");
  const Shape shape = is_flat ? Shape{data.elements()} : data.shape;
  const std::size_t axis =
      checked_axis(request, request.node.int_attribute("axis", 0), shape.size());
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < condition.elements(); ++i)
    if (condition.as<const std::uint8_t>()[i] != 0) kept.push_back(i);
  const auto count = static_cast<std::int64_t>(kept.size());
  if (count != request.outputs.at(0).shape[axis] || condition.elements() > shape[axis])
    fail("node '{}': the condition of Compress does not fit the data", request.node.name);
  Composite composite(request);
  composite.add("", "Gather", {{"axis", static_cast<std::int64_t>(axis)}},
                {Composite::reshaped(composite.input(0), shape),
                 composite.constant(graph::Tensor::of_int64({count}, kept))},
                {composite.output(0)});
  return composite.finish();
}

}  // namespace autopar::runtime
