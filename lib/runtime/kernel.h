#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace autopar::runtime {

using graph::DataType;
using graph::row_major_strides;
using graph::Shape;

class CollectiveContext;

/// Where one input or output of a kernel lies: contiguous, row-major. `data` is null for an
/// optional tensor that is left out (`type` undefined) and, while kernels are made, for anything
/// but a constant.
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
};

/// An operator instance ready to run any number of times on fixed shapes without allocating (oneDNN
/// allocates a list of a call's arguments).
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelIo& io) = 0;
  virtual std::int64_t scratch_bytes() const { return 0; }
};

/// What a kernel is made from. Constant inputs have their data already, so that shapes, axes and
/// the like are read once, here.
struct KernelRequest {
  const graph::Node& node;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  int threads = 1;
  /// Communication of this rank; null where the graph holds no collective.
  CollectiveContext* collectives = nullptr;

  bool is_constant(std::size_t input) const {
    return input < inputs.size() && inputs[input].present() && inputs[input].data != nullptr;
  }
};

/// Throws Error naming node and operator for a type or form that it does not serve.
using KernelFactory = std::unique_ptr<Kernel> (*)(const KernelRequest& request);

struct KernelEntry {
  std::string_view domain;
  std::string_view op_type;
  KernelFactory make;
  /// Output 0 has input 0's bytes in another shape: the compiler aliases it and runs nothing.
  bool is_view = false;
};

/// The CPU's kernels, one line an operator (kernels/cpu/table.cpp).
std::span<const KernelEntry> cpu_kernels();
/// Null where the CPU has no such kernel.
const KernelEntry* find_cpu_kernel(std::string_view domain, std::string_view op_type);

}  // namespace autopar::runtime
