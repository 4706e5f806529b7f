// The collectives of the domain "autopar". A communicator moves contiguous blocks, one a rank;
// where the dimension in question is not the outermost, blocks are packed before or unpacked after.

#include <cstring>
#include <numeric>
#include <utility>

#include "graph/arena.h"
#include "graph/error.h"
#include "runtime/collectives.h"
#include "runtime/kernels/cpu/factories.h"

namespace autopar::runtime::cpu {

namespace {

using Sizes = std::vector<std::int64_t>;

/// What every collective has: its group, and its entry in the count.
class Collective : public Kernel {
 public:
  Collective(const KernelRequest& request, const char* kind, std::int64_t payload_bytes)
      : context_(request.collectives), call_{kind, {}, 1, payload_bytes} {
    if (context_ == nullptr) {
      fail("node '{}': {} needs other ranks; run the bundle, not the shard", request.node.name,
           request.node.op_type);
    }
    for (const auto axis : request.node.ints_attribute("mesh_axes", {})) {
      call_.mesh_axes.push_back(static_cast<int>(axis));
    }
    std::vector<int> ranks;
    for (const auto rank : request.node.ints_attribute("ranks", {})) {
      ranks.push_back(static_cast<int>(rank));
    }
    group_ = &context_->group(ranks);
  }

 protected:
  Communicator& group() { return *group_; }
  void count() { context_->count(call_); }

 private:
  CollectiveContext* context_;
  Communicator* group_;
  bundle::CollectiveTotal call_;
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

/// A tensor as `outer` rows, cut along a dimension into blocks of `sizes` times `inner` bytes.
struct Blocks {
  std::int64_t outer = 1;
  std::int64_t inner_bytes = 1;
  std::int64_t inner_elements = 1;
  Sizes sizes;

  Blocks(const TensorView& tensor, std::int64_t dim, Sizes block_sizes)
      : sizes(std::move(block_sizes)) {
    const auto d = static_cast<std::size_t>(dim);
    for (std::size_t i = 0; i < d; ++i) outer *= tensor.shape[i];
    for (std::size_t i = d + 1; i < tensor.shape.size(); ++i) inner_elements *= tensor.shape[i];
    inner_bytes = graph::bytes_of(tensor.type, inner_elements);
  }

  /// Blocks follow one another already.
  bool contiguous() const { return outer == 1; }
  Sizes block_elements() const {
    Sizes result;
    for (const std::int64_t size : sizes) result.push_back(outer * size * inner_elements);
    return result;
  }
  Sizes block_bytes() const {
    Sizes result;
    for (const std::int64_t size : sizes) result.push_back(outer * size * inner_bytes);
    return result;
  }

  void pack(const std::byte* tensor, std::byte* blocks) const {
    for_each_run([&](std::int64_t in_tensor, std::int64_t in_blocks, std::size_t bytes) {
      std::memcpy(blocks + in_blocks, tensor + in_tensor, bytes);
    });
  }
  void unpack(const std::byte* blocks, std::byte* tensor) const {
    for_each_run([&](std::int64_t in_tensor, std::int64_t in_blocks, std::size_t bytes) {
      std::memcpy(tensor + in_tensor, blocks + in_blocks, bytes);
    });
  }

 private:
  /// Calls `copy` with the offsets in tensor and blocks, and the length, of what lies together in
  /// both.
  template <typename Copy>
  void for_each_run(Copy copy) const {
    const std::int64_t row_bytes = std::reduce(sizes.begin(), sizes.end()) * inner_bytes;
    std::int64_t begin = 0;
    std::int64_t in_blocks = 0;
    for (const std::int64_t size : sizes) {
      const std::int64_t bytes = size * inner_bytes;
      for (std::int64_t row = 0; row < outer && bytes > 0; ++row) {
        copy(row * row_bytes + begin, in_blocks, static_cast<std::size_t>(bytes));
        in_blocks += bytes;
      }
      begin += bytes;
    }
  }
};

class AllReduce final : public Collective {
 public:
  explicit AllReduce(const KernelRequest& request)
      : Collective(request, "all-reduce", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)) {}

  void run(const KernelIo& io) override {
    const TensorView& in = io.inputs[0];
    const TensorView& out = io.outputs[0];
    if (in.data != out.data && in.size_bytes() > 0) {
      std::memcpy(out.data, in.data, static_cast<std::size_t>(in.size_bytes()));
    }
    group().all_reduce(out.data, out.elements(), out.type, op_);
    count();
  }

 private:
  ReduceOp op_;
};

class AllGather final : public Collective {
 public:
  explicit AllGather(const KernelRequest& request)
      : Collective(request, "all-gather", request.outputs[0].size_bytes()),
        blocks_(request.outputs[0], request.node.int_attribute("dim", 0),
                request.node.ints_attribute("sizes", {})),
        block_bytes_(blocks_.block_bytes()),
        scratch_bytes_(blocks_.contiguous() ? 0 : request.outputs[0].size_bytes()) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    std::byte* gathered = blocks_.contiguous() ? io.outputs[0].data : io.scratch;
    group().all_gather(io.inputs[0].data, gathered, block_bytes_);
    if (!blocks_.contiguous()) blocks_.unpack(gathered, io.outputs[0].data);
    count();
  }

 private:
  Blocks blocks_;
  Sizes block_bytes_;
  std::int64_t scratch_bytes_;
};

class ReduceScatter final : public Collective {
 public:
  explicit ReduceScatter(const KernelRequest& request)
      : Collective(request, "reduce-scatter", request.inputs[0].size_bytes()),
        op_(reduce_op(request.node)),
        blocks_(request.inputs[0], request.node.int_attribute("dim", 0),
                request.node.ints_attribute("sizes", {})),
        block_elements_(blocks_.block_elements()),
        scratch_bytes_(blocks_.contiguous() ? 0 : request.inputs[0].size_bytes()) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    const std::byte* packed = io.inputs[0].data;
    if (!blocks_.contiguous()) {
      blocks_.pack(io.inputs[0].data, io.scratch);
      packed = io.scratch;
    }
    group().reduce_scatter(packed, io.outputs[0].data, block_elements_, io.inputs[0].type, op_);
    count();
  }

 private:
  ReduceOp op_;
  Blocks blocks_;
  Sizes block_elements_;
  std::int64_t scratch_bytes_;
};

class AllToAll final : public Collective {
 public:
  explicit AllToAll(const KernelRequest& request)
      : Collective(request, "all-to-all", request.inputs[0].size_bytes()),
        sent_(request.inputs[0], request.node.int_attribute("split_dim", 0),
              request.node.ints_attribute("split_sizes", {})),
        received_(request.outputs[0], request.node.int_attribute("concat_dim", 0),
                  request.node.ints_attribute("concat_sizes", {})),
        send_bytes_(sent_.block_bytes()),
        receive_bytes_(received_.block_bytes()),
        packed_bytes_(sent_.contiguous() ? 0 : graph::aligned(request.inputs[0].size_bytes())),
        scratch_bytes_(packed_bytes_ +
                       (received_.contiguous() ? 0 : request.outputs[0].size_bytes())) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    const std::byte* packed = io.inputs[0].data;
    if (!sent_.contiguous()) {
      sent_.pack(io.inputs[0].data, io.scratch);
      packed = io.scratch;
    }
    std::byte* out = received_.contiguous() ? io.outputs[0].data : io.scratch + packed_bytes_;
    group().all_to_all(packed, send_bytes_, out, receive_bytes_);
    if (!received_.contiguous()) received_.unpack(out, io.outputs[0].data);
    count();
  }

 private:
  Blocks sent_;
  Blocks received_;
  Sizes send_bytes_;
  Sizes receive_bytes_;
  std::int64_t packed_bytes_;
  std::int64_t scratch_bytes_;
};

class Broadcast final : public Collective {
 public:
  explicit Broadcast(const KernelRequest& request)
      : Collective(request, "broadcast", request.inputs[0].size_bytes()),
        root_(static_cast<int>(request.node.int_attribute("root", 0))) {}

  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    if (io.inputs[0].data != out.data && out.size_bytes() > 0) {
      std::memcpy(out.data, io.inputs[0].data, static_cast<std::size_t>(out.size_bytes()));
    }
    group().broadcast(out.data, out.size_bytes(), root_);
    count();
  }

 private:
  int root_;
};

}  // namespace

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

}  // namespace autopar::runtime::cpu
