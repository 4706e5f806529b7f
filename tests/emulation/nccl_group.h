#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nccl_work.h"

namespace autopar::fake_nccl {

/// What a call does until it is done: asked again while it answers ncclInProgress.
using Progress = std::function<ncclResult_t()>;

struct Job {
  std::shared_ptr<Communicator> owner;
  Progress progress;
};

struct Call {
  std::shared_ptr<Communicator> communicator;
  cudaStream_t stream;
  Operation operation;
};

/// The calls of this thread since the outermost ncclGroupStart.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Job> jobs;
  std::vector<Call> calls;
  std::vector<std::shared_ptr<Communicator>> aborted;
};

extern thread_local Group group;

/// Asks all again and again until they are done; the last error, if any.
ncclResult_t wait_for(std::vector<Job>& jobs);

/// What ncclGroupEnd does: waits for the jobs, or launches the calls; either waits for nothing
/// where communicators do not block.
ncclResult_t run(std::vector<Job> jobs, const std::vector<Call>& calls);

/// The rest of ncclCommAbort, which the group's end does: waits until no graph has operations of
/// the communicators, as the real library does. Ends the process where that does not come.
void wait_for_graphs(const std::vector<std::shared_ptr<Communicator>>& aborted);

/// Between two questions to what is in progress: as many threads as there are cores, or more, may
/// wait for several ranks.
void rest();

}  // namespace autopar::fake_nccl
