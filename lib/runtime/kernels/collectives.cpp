// A communicator moves contiguous blocks, one a rank; where the dimension in question is not the
// outermost, blocks are packed before or unpacked after.

#include "runtime/kernels/collectives.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "graph/arena.h"
#include "graph/error.h"
#include "runtime/collectives.h"
#include "runtime/device.h"
#include "runtime/kernels/collective_group.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What every collective has: its group, and what a run counts.
class Collective : public CollectiveKernel {
 public:
  Collective(const KernelRequest& request, const char* kind, std::int64_t payload_bytes)
      : payload_{kind, {}, 1, payload_bytes} {
    if (request.collectives == nullptr) {
      fail("node '{}': {} needs other ranks; run the bundle, not the shard", request.node.name,
           request.node.op_type);
    }
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

  Communicator& group() { return *group_; }

 private:
  std::vector<int> ranks_;
  Communicator* group_;
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
  /// Of the packed blocks, where they need memory of their own.
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
    Communicator& any = members_.front().collective->group();
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
