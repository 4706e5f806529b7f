#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bundle/collective_total.h"
#include "graph/graph.h"
#include "runtime/span.h"

namespace autopar::runtime {

using graph::DataType;
using graph::row_major_strides;
using graph::Shape;

class CollectiveContext;
class ConstantStore;
class Device;

/// Where one input or output of a kernel lies: contiguous, row-major, on a GPU from a multiple of
/// 64 bytes. `data` is null for an optional tensor that is left out (`type` undefined) and, while
/// kernels are made, for anything but a constant.
struct TensorView {
  DataType type = DataType::undefined;
  Shape shape;
  std::byte* data = nullptr;

  bool present() const { return type != DataType::undefined; }
  std::int64_t elements() const { return graph::num_elements(shape); }
  std::int64_t size_bytes() const { return graph::bytes_of(type, elements()); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct KernelIo {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::byte* scratch = nullptr;  ///< scratch_bytes() bytes, 64-byte aligned
  /// The queue of the device that the kernel's work joins: a cudaStream_t; null on the CPU.
  void* stream = nullptr;
};

/// Memory that a kernel has for good, apart from the arena that it works in.
struct OwnMemory {
  std::int64_t arena_bytes = 0;    ///< of a graph within it, scratch included
  std::int64_t scratch_bytes = 0;  ///< of that
  std::int64_t derived_bytes = 0;  ///< constants made of others
};

/// An operator instance ready to run any number of times on fixed shapes without allocating (oneDNN
/// allocates a list of a call's arguments). On a GPU, to run is to join the stream.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelIo& io) = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }
  virtual OwnMemory own_memory() const { return {}; }

  /// Whether a run reads the input where it lies: not so of a constant that the kernel keeps in a
  /// form of its own, or reads from its file.
  virtual bool reads(std::size_t /*input*/) const { return true; }
};

/// A kernel that sends and receives, in three parts, so that the middle parts of several can go out
/// together.
class CollectiveKernel : public Kernel {
 public:
  /// Where its steps run.
  virtual Queue queue() const { return Queue::communication; }
  virtual void pack(const KernelIo&) {}
  virtual void communicate(const KernelIo& io) = 0;
  virtual void unpack(const KernelIo&) {}
  /// What one run sends.
  virtual std::span<const bundle::CollectiveTotal> payload() const = 0;
  /// World ranks that take part.
  virtual std::span<const int> ranks() const = 0;
  /// Whether communicate() returns only when the host has moved the data (see DeviceCommunicator).
  virtual bool waits_on_host() const { return false; }

  void run(const KernelIo& io) final {
    pack(io);
    communicate(io);
    unpack(io);
  }
};

/// What a kernel is made from. Constant inputs have their data already, so that shapes, axes and
/// the like are read once, here.
struct KernelRequest {
  const graph::Node& node;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  Device& device;
  /// Communication of this rank; null where the graph holds no collective.
  CollectiveContext* collectives = nullptr;
  /// By input, a constant as a tensor, which knows its file. Null for others; a request within a
  /// kernel has none.
  std::vector<const graph::Tensor*> constants = {};
  /// By input, whether nothing but this node needs it: of a constant that the kernel keeps in a
  /// form of its own, the data is dropped then. A request within a kernel tells nothing.
  std::vector<bool> is_own = {};

  /// What the rank's kernels keep of constants; null where each kernel keeps its own.
  ConstantStore* store = nullptr;

  /// A constant input in a form of the kernel's own: see ConstantStore::form.
  std::shared_ptr<std::byte> kept(std::size_t input, std::string_view form, std::int64_t bytes,
                                  const std::function<std::shared_ptr<std::byte>()>& make) const;

  bool may_replace(std::size_t input) const {
    return is_constant(input) && input < is_own.size() && is_own[input];
  }

  bool is_constant(std::size_t input) const {
    return input < inputs.size() && inputs[input].present() && inputs[input].data != nullptr;
  }
};

/// Throws Error naming node and operator for a type or form that it does not serve.
using MakeKernel = std::unique_ptr<Kernel>(const KernelRequest& request);
using KernelFactory = MakeKernel*;

/// Whether a node that a pass would make pays on a device in its types and shapes.
using Serves = bool(const graph::Node& node, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs);
using ServesNode = Serves*;

struct KernelEntry {
  std::string_view domain;
  std::string_view op_type;
  KernelFactory make = nullptr;
  /// Output 0 has input 0's bytes in another shape: the compiler aliases it and runs nothing.
  bool is_view = false;
  ServesNode serves = nullptr;  ///< null: every node
};

/// A device's kernels and what it can fuse.
struct KernelTable {
  std::string_view device;  ///< for messages
  std::vector<KernelEntry> entries;
  /// As one link of an ElementwiseChain (passes/passes.h), how many of max_chain_slots the node
  /// takes beside its operands'; nullopt where it cannot be one.
  std::optional<int> (*chain_slots)(const graph::Node& node, std::span<const TensorView> inputs,
                                    const TensorView& output) = nullptr;
  int max_chain_slots = 0;

  /// Null where the device has no such kernel.
  const KernelEntry* find(std::string_view domain, std::string_view op_type) const;
};

/// The CPU's, of all families' tables (kernels/tables.h).
const KernelTable& cpu_kernels();

}  // namespace autopar::runtime
