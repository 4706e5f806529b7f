#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"

namespace autopar::runtime {

/// Computes and communicates within the stage in the calling thread, in the order given. What comes
/// from other stages, and what goes there, each has a thread of its own, where there is any. A step
/// that fails ends the run in all of them, of all ranks. `threads`: of each kernel.
std::unique_ptr<Runner> make_cpu_runner(std::vector<Step> steps, int threads,
                                        CollectiveContext* collectives);

}  // namespace autopar::runtime
