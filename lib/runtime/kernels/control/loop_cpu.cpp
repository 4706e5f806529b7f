#include <cstring>
#include <limits>

#include "graph/loop_body.h"
#include "runtime/executable.h"

namespace autopar::runtime {
namespace {

using graph::body_first_carried;
using graph::loop_first_carried;

void copy(const TensorView& from, std::byte* to) {
  if (from.size_bytes() > 0)
    std::memcpy(to, from.data, static_cast<std::size_t>(from.size_bytes()));
}

/// A loop that only the run ends. The body is compiled once, in an arena of its own; a run writes
/// what it captures there and then makes round after round, what is carried going from its outputs
/// back to its inputs.
class LoopKernel final : public Kernel {
 public:
  explicit LoopKernel(const KernelRequest& request)
      : carried_(request.node.body->carried),
        collected_(request.node.body->collected()),
        body_(graph::body_to_run(request.node, request.constants),
              {.threads = request.device.threads(),
               .device = &request.device,
               .constants = request.store}) {
    for (std::size_t i = loop_first_carried + carried_; i < request.constants.size(); ++i)
      if (request.constants[i] == nullptr) captured_.push_back(i);
  }

  OwnMemory own_memory() const override {
    return {body_.arena_bytes(), body_.scratch_bytes(), body_.derived_constant_bytes()};
  }

  void run(const KernelIo& io) override {
    const TensorView& trips = io.inputs[graph::loop_trip_count];
    const TensorView& condition = io.inputs[graph::loop_condition];
    const std::int64_t most_rounds =
        trips.present() ? *trips.as<std::int64_t>() : std::numeric_limits<std::int64_t>::max();
    bool goes_on = !condition.present() || *condition.as<bool>();
    const std::size_t first_captured = body_first_carried + carried_;
    for (std::size_t i = 0; i < captured_.size(); ++i)
      copy(io.inputs[captured_[i]], body_.input(first_captured + i).data);
    for (std::size_t i = 0; i < carried_; ++i)
      copy(io.inputs[loop_first_carried + i], body_.input(body_first_carried + i).data);

    for (std::int64_t round = 0; goes_on && round < most_rounds; ++round) {
      *body_.input(0).as<std::int64_t>() = round;
      body_.run();
      goes_on = *body_.output(0).as<bool>();
      for (std::size_t i = 0; i < carried_; ++i)
        copy(body_.output(1 + i), body_.input(body_first_carried + i).data);
      for (std::size_t i = 0; i < collected_; ++i) {
        const TensorView& part = body_.output(1 + carried_ + i);
        const TensorView& all = io.outputs[carried_ + i];
        if (all.present()) copy(part, all.data + round * part.size_bytes());
      }
    }
    for (std::size_t i = 0; i < carried_; ++i)
      if (io.outputs[i].present()) copy(body_.input(body_first_carried + i), io.outputs[i].data);
  }

 private:
  std::size_t carried_;
  std::size_t collected_;
  Executable body_;
  std::vector<std::size_t> captured_;  ///< the node's inputs that are written to the body's
};

}  // namespace

namespace cpu {

std::unique_ptr<Kernel> make_loop(const KernelRequest& request) {
  return std::make_unique<LoopKernel>(request);
}

}  // namespace cpu

}  // namespace autopar::runtime
