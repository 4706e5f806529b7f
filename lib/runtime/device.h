#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/work_signs.h"
#include "graph/tensor.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// One kernel of a compiled graph at work on one microbatch, and where its tensors lie.
struct Step {
  std::string node;  ///< for messages and traces
  std::string op_type;
  std::shared_ptr<Kernel> kernel;  ///< the steps of all microbatches have one
  int microbatch = 0;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;

  KernelIo io(void* stream = nullptr) const { return {inputs, outputs, scratch, stream}; }
};

/// Null for a step that neither sends nor receives.
inline const CollectiveKernel* collective_of(const Step& step) {
  return dynamic_cast<const CollectiveKernel*>(step.kernel.get());
}
/// Where it runs.
inline Queue queue_of(const Step& step) {
  const CollectiveKernel* collective = collective_of(step);
  return collective != nullptr ? collective->queue() : Queue::computation;
}

/// Runs a list of steps, any number of times.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Returns when all is done. Throws Error naming the node where a kernel fails.
  virtual void run() = 0;
  /// A run that takes the time of each step, and so takes longer itself. A span a step, in order.
  virtual std::vector<Span> profile() = 0;
  /// Launches that the next run takes: one a step, or one for all.
  virtual std::int64_t launches() const = 0;
  /// What the last run took by the device's own clock, without what the host waits for it; 0 where
  /// there is no such clock.
  virtual double device_seconds() const { return 0; }
};

/// Elements of one shape in two layouts. Strides are in elements; those of the input may be 0 or
/// negative.
struct CopyLayout {
  Shape shape;
  std::vector<std::int64_t> in_strides;
  std::vector<std::int64_t> out_strides;
  int element_bytes = 1;
};

/// Where the first element of each layout lies.
struct CopyPlace {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

/// Copies between layouts, as the device has them: several at once, none of which touches what
/// another writes.
class StridedCopies {
 public:
  virtual ~StridedCopies() = default;
  /// `places` has one for each layout.
  virtual void run(std::span<const CopyPlace> places, void* stream) const = 0;
};

/// One such copy.
class StridedCopy {
 public:
  explicit StridedCopy(std::unique_ptr<StridedCopies> copies) : copies_(std::move(copies)) {}
  void run(const std::byte* in, std::byte* out, void* stream) const {
    const CopyPlace place{in, out};
    copies_->run({&place, 1}, stream);
  }

 private:
  std::unique_ptr<StridedCopies> copies_;
};

/// What an Executable runs on: its kernels, its memory, and how a list of steps is run. It belongs
/// to one rank and outlives what is made with it.
class Device {
 public:
  virtual ~Device() = default;

  virtual const KernelTable& kernels() const = 0;
  /// Threads of the host that a kernel may use.
  virtual int threads() const { return 1; }
  /// Whether kernels read host memory, so that constants can stay where they are.
  virtual bool shares_host_memory() const = 0;

  /// Uninitialised memory, aligned as the plan's offsets are. Throws Error that tells what was
  /// needed and what was free.
  virtual std::shared_ptr<std::byte> allocate(std::int64_t bytes) = 0;
  /// Copies contiguous tensors to memory of the device. Calls note_work() as it goes on.
  struct Upload {
    const graph::Tensor* from = nullptr;
    std::byte* to = nullptr;
  };
  virtual void upload(std::span<const Upload> tensors) {
    for (const Upload& each : tensors) {
      note_work();
      write(each.to, each.from->bytes());
    }
  }
  /// Between memory of the host and of the device, behind all that the device's queues have;
  /// returns when it is done.
  virtual void write(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void read(std::span<std::byte> to, const std::byte* from) = 0;

  virtual std::unique_ptr<StridedCopies> make_strided_copies(std::vector<CopyLayout> layouts) = 0;
  std::unique_ptr<StridedCopy> make_strided_copy(Shape shape, std::vector<std::int64_t> in_strides,
                                                 std::vector<std::int64_t> out_strides,
                                                 int element_bytes) {
    return std::make_unique<StridedCopy>(make_strided_copies(
        {{std::move(shape), std::move(in_strides), std::move(out_strides), element_bytes}}));
  }
  virtual void fill(std::byte* to, std::byte value, std::int64_t bytes, void* stream) = 0;
  /// What kernels and communicators of this queue join: a cudaStream_t; null on the CPU.
  virtual void* queue(Queue) const { return nullptr; }
  void* collective_queue() const { return queue(Queue::communication); }
  /// `collectives` is what the steps' collectives were made with; null where there are none.
  virtual std::unique_ptr<Runner> make_runner(std::vector<Step> steps,
                                              CollectiveContext* collectives) = 0;
};

}  // namespace autopar::runtime
