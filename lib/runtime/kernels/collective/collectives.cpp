// The collectives, for all devices: the device packs and unpacks, the communicators of the
// request's CollectiveContext move its memory. A communicator moves contiguous blocks, one a rank;
// where the dimension in question is not the outermost, blocks are packed before or unpacked after.

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/arena.h"
#include "graph/message_boxes.h"
#include "runtime/collectives.h"
#include "runtime/device.h"
#include "runtime/kernels/collective/collective_group.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What a run sends, and who takes part.
class Communication : public CollectiveKernel {
 public:
  Communication() = default;
  explicit Communication(const KernelRequest& request) {
    if (request.collectives == nullptr)
      fail("node '{}': {} needs other ranks; run the bundle, not the shard", request.node.name,
           request.node.op_type);
  }

  std::span<const bundle::CollectiveTotal> payload() const override { return payload_; }
  std::span<const int> ranks() const override { return ranks_; }

 protected:
  std::vector<bundle::CollectiveTotal> payload_;
  std::vector<int> ranks_;
};

/// What every collective has: its group, and what a run counts.
class Collective : public Communication {
 public:
  Collective(const KernelRequest& request, const char* kind, std::int64_t payload_bytes)
      : Communication(request) {
    const auto integers = [&](const char* name) {
      const auto values = request.node.ints_attribute(name, {});
      return std::vector<int>(values.begin(), values.end());
    };
    payload_.push_back({kind, integers("mesh_axes"), 1, payload_bytes});
    ranks_ = integers("ranks");
    group_ = &request.collectives->group(ranks_);
  }

  bool waits_on_host() const override { return group_->waits_on_host(); }
  DeviceCommunicator& group() { return *group_; }

 private:
  DeviceCommunicator* group_;
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

/// A tensor cut along a dimension into blocks of `sizes`, one a rank, and the copies from it to the
/// blocks one after another, or from them `to_tensor`.
class Blocks {
 public:
  /// The dimension and the sizes are attributes of the node.
  Blocks(const KernelRequest& request, const TensorView& tensor, const char* dim,
         const char* sizes_name, bool to_tensor)
      : type_(tensor.type), bytes_(tensor.size_bytes()), to_tensor_(to_tensor) {
    const Sizes sizes = request.node.ints_attribute(sizes_name, {});
    const AxisExtents extents =
        extents_around(tensor.shape, static_cast<std::size_t>(request.node.int_attribute(dim, 0)));
    for (const std::int64_t size : sizes) elements_.push_back(extents.outer * size * extents.inner);
    if (extents.outer == 1) return;
    const int element = element_bytes_of(request, tensor);
    const std::int64_t row = std::reduce(sizes.begin(), sizes.end()) * extents.inner;
    std::int64_t column = 0;
    std::int64_t block = 0;
    std::vector<CopyLayout> layouts;
    for (const std::int64_t size : sizes) {
      const std::int64_t width = size * extents.inner;
      offsets_.push_back({column * element, block * element});
      CopyLayout& layout =
          layouts.emplace_back(CopyLayout{{extents.outer, width}, {row, 1}, {width, 1}, element});
      if (to_tensor) std::swap(layout.in_strides, layout.out_strides);
      column += width;
      block += extents.outer * width;
    }
    copies_ = request.device.make_strided_copies(std::move(layouts));
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

  /// Where they are, given the memory for packed ones.
  std::byte* place(const TensorView& tensor, std::byte* packed) const {
    return contiguous() ? tensor.data : packed;
  }
  void copy(const TensorView& tensor, std::byte* packed, void* stream) {
    if (contiguous()) return;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::byte* in_tensor = tensor.data + offsets_[i].in_tensor;
      std::byte* in_blocks = packed + offsets_[i].in_blocks;
      places_[i] = to_tensor_ ? CopyPlace{in_blocks, in_tensor} : CopyPlace{in_tensor, in_blocks};
    }
    copies_->run(places_, stream);
  }

 private:
  struct Offsets {
    std::int64_t in_tensor;  ///< bytes
    std::int64_t in_blocks;
  };
  DataType type_;
  std::int64_t bytes_;
  bool to_tensor_;
  Sizes elements_;
  std::vector<Offsets> offsets_;
  std::unique_ptr<StridedCopies> copies_;
  std::vector<CopyPlace> places_;
};

class AllReduce final : public Collective {
 public:
  explicit AllReduce(const KernelRequest& request)
      : Collective(request, "all-reduce", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)) {}

  void communicate(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    group().all_reduce(io.inputs[0].data, out.data, out.elements(), out.type, op_);
  }

 private:
  ReduceOp op_;
};

class AllGather final : public Collective {
 public:
  explicit AllGather(const KernelRequest& request)
      : Collective(request, "all-gather", request.outputs[0].size_bytes()),
        blocks_(request, request.outputs[0], "dim", "sizes", /*to_tensor=*/true),
        block_bytes_(blocks_.bytes()) {}

  std::int64_t scratch_bytes() const override { return blocks_.scratch_bytes(); }
  void communicate(const KernelIo& io) override {
    group().all_gather(io.inputs[0].data, blocks_.place(io.outputs[0], io.scratch), block_bytes_);
  }
  void unpack(const KernelIo& io) override { blocks_.copy(io.outputs[0], io.scratch, io.stream); }

 private:
  Blocks blocks_;
  Sizes block_bytes_;
};

class ReduceScatter final : public Collective {
 public:
  explicit ReduceScatter(const KernelRequest& request)
      : Collective(request, "reduce-scatter", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)),
        blocks_(request, request.inputs[0], "dim", "sizes", /*to_tensor=*/false) {}

  std::int64_t scratch_bytes() const override { return blocks_.scratch_bytes(); }
  void pack(const KernelIo& io) override { blocks_.copy(io.inputs[0], io.scratch, io.stream); }
  void communicate(const KernelIo& io) override {
    group().reduce_scatter(blocks_.place(io.inputs[0], io.scratch), io.outputs[0].data,
                           blocks_.elements(), io.inputs[0].type, op_);
  }

 private:
  ReduceOp op_;
  Blocks blocks_;
};

class AllToAll final : public Collective {
 public:
  explicit AllToAll(const KernelRequest& request)
      : Collective(request, "all-to-all", request.inputs[0].size_bytes()),
        sent_(request, request.inputs[0], "split_dim", "split_sizes", /*to_tensor=*/false),
        received_(request, request.outputs[0], "concat_dim", "concat_sizes", /*to_tensor=*/true),
        send_bytes_(sent_.bytes()),
        receive_bytes_(received_.bytes()) {}

  std::int64_t scratch_bytes() const override {
    return sent_.scratch_bytes() + received_.scratch_bytes();
  }
  void pack(const KernelIo& io) override { sent_.copy(io.inputs[0], io.scratch, io.stream); }
  void communicate(const KernelIo& io) override {
    group().all_to_all(sent_.place(io.inputs[0], io.scratch), send_bytes_,
                       received_.place(io.outputs[0], received(io)), receive_bytes_);
  }
  void unpack(const KernelIo& io) override {
    received_.copy(io.outputs[0], received(io), io.stream);
  }

 private:
  std::byte* received(const KernelIo& io) const { return io.scratch + sent_.scratch_bytes(); }

  Blocks sent_;
  Blocks received_;
  Sizes send_bytes_;
  Sizes receive_bytes_;
};

/// In place, on a copy of what the root has.
class Broadcast final : public Collective {
 public:
  explicit Broadcast(const KernelRequest& request)
      : Collective(request, "broadcast", request.inputs[0].size_bytes()),
        root_(static_cast<int>(request.node.int_attribute("root", 0))),
        copy_(request.device.make_strided_copy({request.inputs[0].elements()}, {1}, {1},
                                               element_bytes_of(request, request.inputs[0]))) {}

  void pack(const KernelIo& io) override {
    if (group().rank() == root_) copy_->run(io.inputs[0].data, io.outputs[0].data, io.stream);
  }

  void communicate(const KernelIo& io) override {
    group().broadcast(io.outputs[0].data, io.outputs[0].size_bytes(), root_);
  }

 private:
  int root_;
  std::unique_ptr<StridedCopy> copy_;
};

/// Send and Recv, to the next stage of a pipeline and from the one before: boxes of a tensor, each
/// in a message of its own, and the copies between it and the messages, where a box is not one run
/// of bytes of the tensor.
class Messages final : public Communication {
 public:
  Messages(const KernelRequest& request, Queue queue) : Communication(request), queue_(queue) {
    const TensorView& tensor = sends() ? request.inputs[0] : request.outputs[0];
    for (const graph::MessageBox& box : graph::message_boxes(request.node, tensor.shape))
      messages_.push_back(message_of(request, tensor, box));
    // Whatever order the node has: if all ranks go by rank, none waits for one that waits for it.
    std::ranges::stable_sort(messages_, {}, &Message::world_rank);
    ranks_.push_back(request.collectives->world_rank());
    for (const Message& message : messages_) ranks_.push_back(message.world_rank);
    std::ranges::sort(ranks_);
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
    if (sends() && !messages_.empty()) {
      bundle::CollectiveTotal& total =
          payload_.emplace_back(bundle::CollectiveTotal{"send", {}, 0, 0});
      for (const Message& message : messages_) {
        ++total.count;
        total.bytes += message.bytes;
      }
    }
    std::vector<CopyLayout> layouts;
    for (const Message& message : messages_)
      if (message.layout) layouts.push_back(*message.layout);
    if (layouts.empty()) return;
    places_.resize(layouts.size());
    copies_ = request.device.make_strided_copies(std::move(layouts));
  }

  Queue queue() const override { return queue_; }
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  bool waits_on_host() const override {
    return std::ranges::any_of(
        messages_, [](const Message& m) { return m.peer.communicator->waits_on_host(); });
  }

  void pack(const KernelIo& io) override {
    if (sends()) copy(io.inputs[0].data, io);
  }
  void communicate(const KernelIo& io) override {
    if (messages_.empty()) return;
    std::byte* tensor = sends() ? io.inputs[0].data : io.outputs[0].data;
    DeviceCommunicator& any = *messages_.front().peer.communicator;
    any.begin_group();
    for (const Message& message : messages_) {
      std::byte* box = message.layout ? io.scratch + message.scratch : tensor + message.offset;
      const auto& [communicator, rank] = message.peer;
      if (sends())
        communicator->send(box, message.bytes, rank);
      else
        communicator->receive(box, message.bytes, rank);
    }
    any.end_group();
  }
  void unpack(const KernelIo& io) override {
    if (!sends()) copy(io.outputs[0].data, io);
  }

 private:
  struct Message {
    CollectiveContext::Peer peer;
    int world_rank = 0;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;           ///< bytes, of the box's first element in the tensor
    std::int64_t scratch = 0;          ///< bytes, where the box is packed
    std::optional<CopyLayout> layout;  ///< to the packed box, or from it; of what is packed alone
  };

  bool sends() const { return queue_ == Queue::send; }

  /// Between the tensor and the packed boxes.
  void copy(std::byte* tensor, const KernelIo& io) {
    if (copies_ == nullptr) return;
    std::size_t i = 0;
    for (const Message& message : messages_) {
      if (!message.layout) continue;
      std::byte* box = tensor + message.offset;
      std::byte* packed = io.scratch + message.scratch;
      places_[i++] = sends() ? CopyPlace{box, packed} : CopyPlace{packed, box};
    }
    copies_->run(places_, io.stream);
  }

  /// Takes scratch memory for a box that is packed.
  Message message_of(const KernelRequest& request, const TensorView& tensor,
                     const graph::MessageBox& box) {
    const std::vector<std::int64_t> strides = row_major_strides(tensor.shape);
    Shape shape;
    std::int64_t first = 0;
    for (std::size_t d = 0; d < box.ranges.size(); ++d) {
      shape.push_back(box.ranges[d].size());
      first += box.ranges[d].begin * strides[d];
    }
    Message message{.peer = request.collectives->peer(box.peer, queue_),
                    .world_rank = box.peer,
                    .bytes = graph::bytes_of(tensor.type, graph::num_elements(shape)),
                    .offset = graph::bytes_of(tensor.type, first),
                    .scratch = scratch_bytes_,
                    .layout = {}};
    if (is_one_run(shape, tensor.shape)) return message;
    scratch_bytes_ += graph::aligned(message.bytes);
    message.layout = {shape, strides, row_major_strides(shape), element_bytes_of(request, tensor)};
    if (!sends()) std::swap(message.layout->in_strides, message.layout->out_strides);
    return message;
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
  std::unique_ptr<StridedCopies> copies_;
  std::vector<CopyPlace> places_;
  std::int64_t scratch_bytes_ = 0;
};

/// The members' parts one after another, what they communicate together.
class CollectiveGroup final : public Communication {
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
};

template <typename KernelOf>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return std::make_unique<KernelOf>(request);
}
template <Queue queue>
std::unique_ptr<Kernel> make_messages(const KernelRequest& request) {
  return std::make_unique<Messages>(request, queue);
}

}  // namespace

std::span<const OperatorLine> collective_operators() {
  static constexpr OperatorLine lines[] = {
      {graph::collective_domain, "AllReduce", make<AllReduce>},
      {graph::collective_domain, "AllGather", make<AllGather>},
      {graph::collective_domain, "ReduceScatter", make<ReduceScatter>},
      {graph::collective_domain, "AllToAll", make<AllToAll>},
      {graph::collective_domain, "Broadcast", make<Broadcast>},
      {graph::collective_domain, "Send", make_messages<Queue::send>},
      {graph::collective_domain, "Recv", make_messages<Queue::receive>},
      // Collectives that go out together pay on GPUs alone.
      {.domain = passes::internal_domain,
       .op_type = "CollectiveGroup",
       .make = make<CollectiveGroup>,
       .devices = OperatorLine::Devices::cuda},
  };
  return lines;
}

}  // namespace autopar::runtime
