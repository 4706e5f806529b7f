#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "driver_types.h"

namespace autopar::emulation {

/// A piece of work of a device.
struct Work {
  int device;
  cudaGraphNodeType kind;
  /// Called until it is true.
  std::function<bool()> run;
};

/// Work that is queued, executes or is done. Executed once those that it comes after are done.
struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

/// Queues `work` for the calling thread. Null operations in `after` are none.
OperationPtr queue_work(Work work, const std::vector<OperationPtr>& after);

/// Executes work of the calling thread in random order until `operation` is done; null is done.
void finish(const OperationPtr& operation);

/// Executes at most one piece; whether `operation` is done then.
bool progress(const OperationPtr& operation);

bool is_done(const OperationPtr& operation);

/// Forgets all that is not done.
void drop_queued_work();

}  // namespace autopar::emulation
