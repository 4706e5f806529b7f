// A communicator moves contiguous blocks, one a rank; where the dimension in question is not the
// outermost, blocks are packed before or unpacked after.

#include "runtime/kernels/collective/collectives.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "graph/arena.h"
#include "graph/message_boxes.h"
#include "runtime/collectives.h"
#include "runtime/device.h"
#include "runtime/kernels/collective/collective_group.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

using Sizes = std::vector<std::int64_t>;

void require_other_ranks(const KernelRequest& request) {
  if (request.collectives != nullptr) return;
  fail("node '{}': {} needs other ranks; run the bundle, not the shard", request.node.name,
       request.node.op_type);
}

/// What every collective has: its group, and what a run counts.
class Collective : public CollectiveKernel {
 public:
  Collective(const KernelRequest& request, const char* kind, std::int64_t payload_bytes)
      : payload_{kind, {}, 1, payload_bytes} {
    require_other_ranks(request);
    for (const auto axis : request.node.ints_attribute("mesh_axes", {})) {
      payload_.mesh_axes.push_back(static_cast<int>(axis));
    }
    for (const auto rank : request.node.ints_attribute("ranks", {})) {
      ranks_.push_back(static_cast<int>(rank));
    }
    group_ = &request.collectives->group(ranks_);
  }

  std::span<const bundle::CollectiveTotal> payload() const override { return {&payload_, 1}; }
  std::span<const int> ranks() const override { return ranks_; }
  bool waits_on_host() const override { return group_->waits_on_host(); }

  DeviceCommunicator& group() { return *group_; }

 private:
  std::vector<int> ranks_;
  DeviceCommunicator* group_;
  bundle::CollectiveTotal payload_;
};

ReduceOp reduce_op(const graph::Node& node) {
  static const std::map<std::string, ReduceOp> by_name = {{"sum", ReduceOp::sum},
                                                          {"max", ReduceOp::max},
                                                          {"min", ReduceOp::min},
                                                          {"mean", ReduceOp::mean}};
  const auto found = by_name.find(node.string_attribute("reduce", "sum"));
  if (found == by_name.end()) fail("node '{}': attribute 'reduce' is unknown", node.name);
  return found->second;
}

/// A tensor cut along a dimension into blocks of `sizes`, one a rank, and the copies between it and
/// the blocks one after another.
class Blocks {
 public:
  Blocks(const KernelRequest& request, const TensorView& tensor, std::int64_t dim, Sizes sizes)
      : type_(tensor.type), bytes_(tensor.size_bytes()) {
    const AxisExtents extents = extents_around(tensor.shape, static_cast<std::size_t>(dim));
    for (const std::int64_t size : sizes) elements_.push_back(extents.outer * size * extents.inner);
    if (extents.outer == 1) return;
    const int element = element_bytes_of(request, tensor);
    const std::int64_t row = std::reduce(sizes.begin(), sizes.end()) * extents.inner;
    std::int64_t column = 0;
    std::int64_t block = 0;
    std::vector<CopyLayout> packing;
    std::vector<CopyLayout> unpacking;
    for (const std::int64_t size : sizes) {
      const std::int64_t width = size * extents.inner;
      const Shape shape{extents.outer, width};
      offsets_.push_back({column * element, block * element});
      packing.push_back({shape, {row, 1}, {width, 1}, element});
      unpacking.push_back({shape, {width, 1}, {row, 1}, element});
      column += width;
      block += extents.outer * width;
    }
    packing_ = request.device.make_strided_copies(std::move(packing));
    unpacking_ = request.device.make_strided_copies(std::move(unpacking));
    places_.resize(offsets_.size());
  }

  /// Blocks follow one another in the tensor already.
  bool contiguous() const { return offsets_.empty(); }
  /// Memory for the packed blocks, where they need their own.
  std::int64_t scratch_bytes() const { return contiguous() ? 0 : graph::aligned(bytes_); }
  const Sizes& elements() const { return elements_; }
  Sizes bytes() const {
    Sizes result;
    for (const std::int64_t each : elements_) result.push_back(graph::bytes_of(type_, each));
    return result;
  }

  void pack(const std::byte* tensor, std::byte* blocks, void* stream) {
    if (contiguous()) return;
    for (std::size_t i = 0; i < places_.size(); ++i)
      places_[i] = {tensor + offsets_[i].in_tensor, blocks + offsets_[i].in_blocks};
    packing_->run(places_, stream);
  }
  void unpack(const std::byte* blocks, std::byte* tensor, void* stream) {
    if (contiguous()) return;
    for (std::size_t i = 0; i < places_.size(); ++i)
      places_[i] = {blocks + offsets_[i].in_blocks, tensor + offsets_[i].in_tensor};
    unpacking_->run(places_, stream);
  }

 private:
  struct Offsets {
    std::int64_t in_tensor;  ///< bytes
    std::int64_t in_blocks;
  };
  DataType type_;
  std::int64_t bytes_;
  Sizes elements_;
  std::vector<Offsets> offsets_;
  std::unique_ptr<StridedCopies> packing_;
  std::unique_ptr<StridedCopies> unpacking_;
  std::vector<CopyPlace> places_;
};

/// For collectives that work in place.
std::unique_ptr<StridedCopy> whole_copy(const KernelRequest& request) {
  const TensorView& in = request.inputs[0];
  return request.device.make_strided_copy({in.elements()}, {1}, {1}, element_bytes_of(request, in));
}

class AllReduce final : public Collective {
 public:
  explicit AllReduce(const KernelRequest& request)
      : Collective(request, "all-reduce", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)),
        copy_(whole_copy(request)) {}

  void pack(const KernelIo& io) override {
    if (io.inputs[0].data != io.outputs[0].data)
      copy_->run(io.inputs[0].data, io.outputs[0].data, io.stream);
  }
  void communicate(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    group().all_reduce(out.data, out.elements(), out.type, op_);
  }

 private:
  ReduceOp op_;
  std::unique_ptr<StridedCopy> copy_;
};

class AllGather final : public Collective {
 public:
  explicit AllGather(const KernelRequest& request)
      : Collective(request, "all-gather", request.outputs[0].size_bytes()),
        blocks_(request, request.outputs[0], request.node.int_attribute("dim", 0),
                request.node.ints_attribute("sizes", {})),
        block_bytes_(blocks_.bytes()) {}

  std::int64_t scratch_bytes() const override { return blocks_.scratch_bytes(); }
  void communicate(const KernelIo& io) override {
    group().all_gather(io.inputs[0].data, blocks_.contiguous() ? io.outputs[0].data : io.scratch,
                       block_bytes_);
  }
  void unpack(const KernelIo& io) override {
    blocks_.unpack(io.scratch, io.outputs[0].data, io.stream);
  }

 private:
  Blocks blocks_;
  Sizes block_bytes_;
};

class ReduceScatter final : public Collective {
 public:
  explicit ReduceScatter(const KernelRequest& request)
      : Collective(request, "reduce-scatter", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)),
        blocks_(request, request.inputs[0], request.node.int_attribute("dim", 0),
                request.node.ints_attribute("sizes", {})) {}

  std::int64_t scratch_bytes() const override { return blocks_.scratch_bytes(); }
  void pack(const KernelIo& io) override { blocks_.pack(io.inputs[0].data, io.scratch, io.stream); }
  void communicate(const KernelIo& io) override {
    group().reduce_scatter(blocks_.contiguous() ? io.inputs[0].data : io.scratch,
                           io.outputs[0].data, blocks_.elements(), io.inputs[0].type, op_);
  }

 private:
  ReduceOp op_;
  Blocks blocks_;
};

class AllToAll final : public Collective {
 public:
  explicit AllToAll(const KernelRequest& request)
      : Collective(request, "all-to-all", request.inputs[0].size_bytes()),
        sent_(request, request.inputs[0], request.node.int_attribute("split_dim", 0),
              request.node.ints_attribute("split_sizes", {})),
        received_(request, request.outputs[0], request.node.int_attribute("concat_dim", 0),
                  request.node.ints_attribute("concat_sizes", {})),
        send_bytes_(sent_.bytes()),
        receive_bytes_(received_.bytes()) {}

  std::int64_t scratch_bytes() const override {
    return sent_.scratch_bytes() + received_.scratch_bytes();
  }
  void pack(const KernelIo& io) override { sent_.pack(io.inputs[0].data, io.scratch, io.stream); }
  void communicate(const KernelIo& io) override {
    group().all_to_all(sent_.contiguous() ? io.inputs[0].data : io.scratch, send_bytes_,
                       received_.contiguous() ? io.outputs[0].data : received(io), receive_bytes_);
  }
  void unpack(const KernelIo& io) override {
    received_.unpack(received(io), io.outputs[0].data, io.stream);
  }

 private:
  std::byte* received(const KernelIo& io) const { return io.scratch + sent_.scratch_bytes(); }

  Blocks sent_;
  Blocks received_;
  Sizes send_bytes_;
  Sizes receive_bytes_;
};

class Broadcast final : public Collective {
 public:
  explicit Broadcast(const KernelRequest& request)
      : Collective(request, "broadcast", request.inputs[0].size_bytes()),
        root_(static_cast<int>(request.node.int_attribute("root", 0))),
        copy_(whole_copy(request)) {}

  void pack(const KernelIo& io) override {
    if (io.inputs[0].data != io.outputs[0].data)
      copy_->run(io.inputs[0].data, io.outputs[0].data, io.stream);
  }
  void communicate(const KernelIo& io) override {
    group().broadcast(io.outputs[0].data, io.outputs[0].size_bytes(), root_);
  }

 private:
  int root_;
  std::unique_ptr<StridedCopy> copy_;
};

/// Boxes of a tensor, each in a message of its own, and the copies between it and the messages,
/// where a box is not one run of bytes of the tensor.
class Messages : public CollectiveKernel {
 public:
  Messages(const KernelRequest& request, const TensorView& tensor, Queue queue) : queue_(queue) {
    require_other_ranks(request);
    for (const graph::MessageBox& box : graph::message_boxes(request.node, tensor.shape)) {
      Message& message = messages_.emplace_back();
      message.peer = request.collectives->peer(box.peer, queue);
      message.world_rank = box.peer;
      add_layout(request, tensor, box.ranges, message);
    }
    // Whatever order the node has: if all ranks go by rank, none waits for one that waits for it.
    std::ranges::stable_sort(messages_, {}, &Message::world_rank);
    ranks_.push_back(request.collectives->world_rank());
    for (const Message& message : messages_) ranks_.push_back(message.world_rank);
    std::ranges::sort(ranks_);
    ranks_.erase(std::ranges::unique(ranks_).begin(), ranks_.end());
    places_.resize(layouts_.size());
  }

  Queue queue() const override { return queue_; }
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::span<const bundle::CollectiveTotal> payload() const override { return payload_; }
  std::span<const int> ranks() const override { return ranks_; }
  bool waits_on_host() const override {
    return std::ranges::any_of(
        messages_, [](const Message& m) { return m.peer.communicator->waits_on_host(); });
  }

 protected:
  struct Message {
    CollectiveContext::Peer peer;
    int world_rank = 0;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;   ///< bytes, of the box's first element in the tensor
    std::int64_t scratch = 0;  ///< bytes, where the box is packed; of no meaning where it is not
    bool is_packed = false;
    std::size_t layout = 0;  ///< of the packed box, in the order of the node

    std::byte* place(std::byte* tensor, std::byte* scratch_memory) const {
      return is_packed ? scratch_memory + scratch : tensor + offset;
    }
  };

  std::span<const Message> messages() const { return messages_; }
  void add_payload(const char* kind) {
    if (messages_.empty()) return;
    bundle::CollectiveTotal& total = payload_.emplace_back(kind, std::vector<int>{}, 0, 0);
    for (const Message& message : messages_) {
      ++total.count;
      total.bytes += message.bytes;
    }
  }

  /// Between the tensor and the packed boxes; `to_tensor` tells the direction.
  void copy(const StridedCopies* copies, std::byte* tensor, std::byte* scratch, bool to_tensor,
            void* stream) {
    if (copies == nullptr) return;
    std::size_t i = 0;
    for (const Message& message : messages_) {
      if (!message.is_packed) continue;
      std::byte* box = tensor + message.offset;
      std::byte* packed = scratch + message.scratch;
      places_[i++] = to_tensor ? CopyPlace{packed, box} : CopyPlace{box, packed};
    }
    copies->run(places_, stream);
  }

  /// A copy for each packed message, in order: from the tensor, or to it if `to_tensor`.
  std::unique_ptr<StridedCopies> make_copies(const KernelRequest& request, bool to_tensor) const {
    if (layouts_.empty()) return nullptr;
    std::vector<CopyLayout> layouts;
    for (const Message& message : messages_) {
      if (!message.is_packed) continue;
      CopyLayout layout = layouts_[message.layout];
      if (to_tensor) std::swap(layout.in_strides, layout.out_strides);
      layouts.push_back(std::move(layout));
    }
    return request.device.make_strided_copies(std::move(layouts));
  }

 private:
  void add_layout(const KernelRequest& request, const TensorView& tensor,
                  const std::vector<graph::Range>& ranges, Message& message) {
    const std::vector<std::int64_t> strides = row_major_strides(tensor.shape);
    Shape shape;
    std::int64_t first = 0;
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      shape.push_back(ranges[d].size());
      first += ranges[d].begin * strides[d];
    }
    message.bytes = graph::bytes_of(tensor.type, graph::num_elements(shape));
    message.offset = graph::bytes_of(tensor.type, first);
    if (is_one_run(shape, tensor.shape)) return;
    message.is_packed = true;
    message.scratch = scratch_bytes_;
    message.layout = layouts_.size();
    scratch_bytes_ += graph::aligned(message.bytes);
    layouts_.push_back(
        {shape, strides, row_major_strides(shape), element_bytes_of(request, tensor)});
  }

  /// Whether a box of a tensor is one run of its elements: whole in all dimensions behind the first
  /// that has more than one index.
  static bool is_one_run(const Shape& box, const Shape& tensor) {
    std::size_t d = 0;
    while (d < box.size() && box[d] == 1) ++d;
    if (graph::num_elements(box) == 0) return true;
    for (++d; d < box.size(); ++d)
      if (box[d] != tensor[d]) return false;
    return true;
  }

  Queue queue_;
  std::vector<Message> messages_;
  std::vector<CopyLayout> layouts_;
  std::vector<CopyPlace> places_;
  std::vector<int> ranks_;
  std::vector<bundle::CollectiveTotal> payload_;
  std::int64_t scratch_bytes_ = 0;
};

class Send final : public Messages {
 public:
  explicit Send(const KernelRequest& request)
      : Messages(request, request.inputs[0], Queue::send),
        packing_(make_copies(request, /*to_tensor=*/false)) {
    add_payload("send");
  }

  void pack(const KernelIo& io) override {
    copy(packing_.get(), io.inputs[0].data, io.scratch, /*to_tensor=*/false, io.stream);
  }
  void communicate(const KernelIo& io) override {
    if (messages().empty()) return;
    DeviceCommunicator& any = *messages().front().peer.communicator;
    any.begin_group();
    for (const Message& message : messages())
      message.peer.communicator->send(message.place(io.inputs[0].data, io.scratch), message.bytes,
                                      message.peer.rank);
    any.end_group();
  }

 private:
  std::unique_ptr<StridedCopies> packing_;
};

class Recv final : public Messages {
 public:
  explicit Recv(const KernelRequest& request)
      : Messages(request, request.outputs[0], Queue::receive),
        unpacking_(make_copies(request, /*to_tensor=*/true)) {}

  void communicate(const KernelIo& io) override {
    if (messages().empty()) return;
    DeviceCommunicator& any = *messages().front().peer.communicator;
    any.begin_group();
    for (const Message& message : messages())
      message.peer.communicator->receive(message.place(io.outputs[0].data, io.scratch),
                                         message.bytes, message.peer.rank);
    any.end_group();
  }
  void unpack(const KernelIo& io) override {
    copy(unpacking_.get(), io.outputs[0].data, io.scratch, /*to_tensor=*/true, io.stream);
  }

 private:
  std::unique_ptr<StridedCopies> unpacking_;
};

/// The members' parts one after another, what they communicate together.
class CollectiveGroup final : public CollectiveKernel {
 public:
  explicit CollectiveGroup(const KernelRequest& request) {
    for (const graph::Node& node : members_of(request.node)) {
      const std::size_t m = members_.size();
      const KernelEntry* entry = request.device.kernels().find(node.domain, node.op_type);
      require(entry != nullptr, "a group's members have kernels");
      std::unique_ptr<Kernel> kernel = entry->make(
          {node, {request.inputs[m]}, {request.outputs[m]}, request.device, request.collectives});
      auto* collective = dynamic_cast<Collective*>(kernel.get());
      require(collective != nullptr, "a group's members are collectives");
      kernel.release();
      members_.push_back({std::unique_ptr<Collective>(collective), scratch_bytes_});
      scratch_bytes_ += graph::aligned(collective->scratch_bytes());
      payload_.insert(payload_.end(), collective->payload().begin(), collective->payload().end());
      for (const int rank : collective->ranks())
        if (std::ranges::find(ranks_, rank) == ranks_.end()) ranks_.push_back(rank);
    }
    std::ranges::sort(ranks_);
  }

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::span<const bundle::CollectiveTotal> payload() const override { return payload_; }
  std::span<const int> ranks() const override { return ranks_; }
  bool waits_on_host() const override {
    return std::ranges::any_of(members_,
                               [](const Member& m) { return m.collective->waits_on_host(); });
  }

  void pack(const KernelIo& io) override {
    for (std::size_t m = 0; m < members_.size(); ++m) members_[m].collective->pack(io_of(m, io));
  }
  void communicate(const KernelIo& io) override {
    DeviceCommunicator& any = members_.front().collective->group();
    any.begin_group();
    for (std::size_t m = 0; m < members_.size(); ++m)
      members_[m].collective->communicate(io_of(m, io));
    any.end_group();
  }
  void unpack(const KernelIo& io) override {
    for (std::size_t m = 0; m < members_.size(); ++m) members_[m].collective->unpack(io_of(m, io));
  }

 private:
  struct Member {
    std::unique_ptr<Collective> collective;
    std::int64_t scratch_offset;
  };

  KernelIo io_of(std::size_t m, const KernelIo& io) const {
    return {io.inputs.subspan(m, 1), io.outputs.subspan(m, 1),
            io.scratch + members_[m].scratch_offset, io.stream};
  }

  std::vector<Member> members_;
  std::int64_t scratch_bytes_ = 0;
  std::vector<bundle::CollectiveTotal> payload_;
  std::vector<int> ranks_;
};

}  // namespace

std::unique_ptr<Kernel> make_collective_group(const KernelRequest& request) {
  return std::make_unique<CollectiveGroup>(request);
}
std::unique_ptr<Kernel> make_send(const KernelRequest& request) {
  return std::make_unique<Send>(request);
}
std::unique_ptr<Kernel> make_recv(const KernelRequest& request) {
  return std::make_unique<Recv>(request);
}
std::unique_ptr<Kernel> make_all_reduce(const KernelRequest& request) {
  return std::make_unique<AllReduce>(request);
}
std::unique_ptr<Kernel> make_all_gather(const KernelRequest& request) {
  return std::make_unique<AllGather>(request);
}
std::unique_ptr<Kernel> make_reduce_scatter(const KernelRequest& request) {
  return std::make_unique<ReduceScatter>(request);
}
std::unique_ptr<Kernel> make_all_to_all(const KernelRequest& request) {
  return std::make_unique<AllToAll>(request);
}
std::unique_ptr<Kernel> make_broadcast(const KernelRequest& request) {
  return std::make_unique<Broadcast>(request);
}

}  // namespace autopar::runtime
