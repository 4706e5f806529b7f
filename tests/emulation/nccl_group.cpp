#include "nccl_group.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "emulation.h"
#include "nccl_join.h"

namespace autopar::fake_nccl {

thread_local Group group;

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

namespace {

using emulation::capture_id;

/// Operations of one communicator execute in the order of their calls, whatever their streams.
ncclResult_t launch(const std::shared_ptr<Communicator>& communicator, cudaStream_t stream,
                    const std::vector<Operation>& operations) {
  const std::uint64_t capture = capture_id(stream);
  const bool follows = !communicator->launched.empty() && communicator->last_stream != stream &&
                       communicator->last_capture == capture;
  if (follows) cudaStreamWaitEvent(stream, communicator->last_launch, 0);
  const auto work = std::make_shared<Launch>(communicator, operations);
  // Each execution, a replay of a graph's as well, starts from the operations as they are now.
  const auto poll = [work, now = std::optional<Launch>()]() mutable {
    if (!now) now = *work;
    return now->poll();
  };
  if (emulation::enqueue_polled(stream, poll) != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "the work could not be queued");
  }
  communicator->launched.push_back({work, stream, capture != 0});
  communicator->last_stream = stream;
  communicator->last_capture = capture;
  if (communicator->last_launch == nullptr) {
    int current = 0;
    cudaGetDevice(&current);
    cudaSetDevice(communicator->device);
    cudaEventCreateWithFlags(&communicator->last_launch, cudaEventDisableTiming);
    cudaSetDevice(current);
  }
  cudaEventRecord(communicator->last_launch, stream);
  return ncclSuccess;
}

/// A non-blocking communicator goes on with this when it is asked for errors.
void leave_pending(Communicator& communicator, Progress progress) {
  const std::lock_guard lock(communicator.mutex);
  communicator.pending = std::move(progress);
  communicator.was_polled = false;
  communicator.state = ncclInProgress;
}

/// What is asked of one communicator is done in order.
std::vector<Job> one_an_owner(std::vector<Job> jobs) {
  std::vector<Job> merged;
  for (Job& job : jobs) {
    const auto found = std::ranges::find(merged, job.owner, &Job::owner);
    if (found == merged.end()) {
      merged.push_back(std::move(job));
      continue;
    }
    found->progress = [first = std::move(found->progress), second = std::move(job.progress),
                       is_first_done = false]() mutable {
      if (!is_first_done) {
        const ncclResult_t result = first();
        if (result != ncclSuccess) return result;
        is_first_done = true;
      }
      return second();
    };
  }
  return merged;
}

}  // namespace

ncclResult_t wait_for(std::vector<Job>& jobs) {
  ncclResult_t result = ncclSuccess;
  while (!jobs.empty()) {
    std::erase_if(jobs, [&](const Job& job) {
      const ncclResult_t answer = job.owner->is_aborted ? ncclInternalError : job.progress();
      if (answer == ncclInProgress) return false;
      job.owner->state = answer;
      if (answer != ncclSuccess) result = answer;
      return true;
    });
    if (!jobs.empty()) rest();
  }
  return result;
}

void wait_for_graphs(const std::vector<std::shared_ptr<Communicator>>& aborted) {
  using Clock = std::chrono::steady_clock;
  const auto has_graph = [](const std::shared_ptr<Communicator>& communicator) {
    const std::lock_guard lock(communicator->mutex);
    return std::ranges::any_of(communicator->launched, [](const auto& launch) {
      return launch.is_captured && !launch.work.expired();
    });
  };
  const auto deadline = Clock::now() + std::chrono::minutes(1);
  while (std::ranges::any_of(aborted, has_graph)) {
    if (Clock::now() > deadline) {
      std::fputs("NCCL: ncclCommAbort waits for ever for a graph that nobody destroys\n", stderr);
      std::abort();
    }
    rest();
  }
}

ncclResult_t run(std::vector<Job> jobs, const std::vector<Call>& calls) {
  if (!jobs.empty() && !calls.empty()) {
    return refuse(ncclInvalidUsage, "a group has communicators to make and operations to do");
  }
  const auto is_mixed = [](const auto& entries, auto communicator_of) {
    return std::ranges::any_of(entries, [&](const auto& entry) {
      return communicator_of(entry)->is_blocking != communicator_of(entries.front())->is_blocking;
    });
  };
  const auto owner = [](const Job& job) { return job.owner; };
  const auto caller = [](const Call& call) { return call.communicator; };
  if (is_mixed(jobs, owner) || is_mixed(calls, caller)) {
    return refuse(ncclInvalidArgument,
                  "Blocking and nonblocking communicators are not allowed in the same group");
  }
  if (!jobs.empty()) {
    jobs = one_an_owner(std::move(jobs));
    if (jobs.front().owner->is_blocking) return wait_for(jobs);
    for (Job& job : jobs) leave_pending(*job.owner, std::move(job.progress));
    return ncclInProgress;
  }

  std::vector<std::pair<const Call*, std::vector<Operation>>> launches;
  for (const Call& call : calls) {
    auto found = std::ranges::find_if(launches, [&](const auto& entry) {
      return entry.first->communicator == call.communicator;
    });
    if (found == launches.end()) found = launches.emplace(found, &call, std::vector<Operation>());
    if (found->first->stream != call.stream) {
      return refuse(ncclInvalidUsage, "a group uses a communicator in two streams");
    }
    found->second.push_back(call.operation);
  }
  ncclResult_t result = ncclSuccess;
  for (const auto& [call, operations] : launches) {
    // The first launch connects the members, which a non-blocking communicator does later.
    const bool connects = !std::exchange(call->communicator->has_launched, true);
    if (connects && !call->communicator->is_blocking) {
      leave_pending(*call->communicator,
                    [communicator = call->communicator, stream = call->stream,
                     operations = operations] { return launch(communicator, stream, operations); });
      result = ncclInProgress;
      continue;
    }
    const ncclResult_t launched = launch(call->communicator, call->stream, operations);
    if (launched != ncclSuccess) return launched;
  }
  return result;
}

}  // namespace autopar::fake_nccl
