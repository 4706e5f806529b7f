#include "runtime/rank_context.h"

#include <utility>

namespace autopar::runtime {

RankContext::RankContext(const DeviceOptions& device, HostCommunicator& host,
                         const LocalRanks& local, std::chrono::milliseconds timeout,
                         const std::vector<std::vector<int>>& stages)
    : host_(host),
      device_(device, host, local, timeout),
      collectives_(device_.world(), host, timeout),
      constants_(device_.device()) {
  collectives_.enter_stage(stages, &device_.device());
}

StateBuffers& RankContext::make_states(std::vector<StateBuffer> states) {
  states_ = std::make_unique<StateBuffers>(device(), std::move(states));
  return *states_;
}

}  // namespace autopar::runtime
