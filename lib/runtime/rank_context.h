#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/collectives.h"
#include "runtime/constant_store.h"
#include "runtime/rank_device.h"
#include "runtime/state_buffers.h"

namespace autopar::runtime {

/// What belongs to a rank and not to one of its graphs: its device, its communicators, what is
/// made of constants, and states. All that is made with it is made in the thread that made it, and
/// destroyed before it.
class RankContext {
 public:
  /// Every rank of `host` makes one, with the same stages: the world's ranks by stage, none where
  /// there is one stage alone.
  RankContext(const DeviceOptions& device, HostCommunicator& host, const LocalRanks& local,
              std::chrono::milliseconds timeout, const std::vector<std::vector<int>>& stages = {});

  HostCommunicator& host() { return host_; }
  Device& device() { return device_.device(); }
  CollectiveContext& collectives() { return collectives_; }
  ConstantStore& constants() { return constants_; }

  /// Where graphs that are compiled from now on have their states: zeros at first.
  StateBuffers& make_states(std::vector<StateBuffer> states);
  /// Null where there are none: then each graph's states are its own.
  StateBuffers* states() { return states_.get(); }

  /// Ends all that this rank's communicators wait for.
  void abort() noexcept { collectives_.abort(); }

 private:
  HostCommunicator& host_;
  RankDevice device_;
  CollectiveContext collectives_;
  ConstantStore constants_;
  std::unique_ptr<StateBuffers> states_;
};

}  // namespace autopar::runtime
