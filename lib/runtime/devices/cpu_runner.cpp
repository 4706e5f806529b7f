#include "runtime/devices/cpu_runner.h"

#include <omp.h>

#include <algorithm>
#include <utility>

namespace autopar::runtime {
namespace {

std::size_t lane_of(Queue queue) {
  if (queue == Queue::receive) return 1;
  return queue == Queue::send ? 2 : 0;
}

}  // namespace

CpuRunner::CpuRunner(std::vector<Step> steps, int threads, CollectiveContext* collectives)
    : steps_(std::move(steps)), threads_(threads), collectives_(collectives) {
  const auto is_first_lanes = [](const Step& step) { return lane_of(queue_of(step)) == 0; };
  if (std::ranges::all_of(steps_, is_first_lanes)) return;
  std::vector<StepAccess> accesses;
  for (const Step& step : steps_) accesses.push_back(access_of(step));
  schedule_ = schedule(accesses);
  for (std::size_t s = 0; s < steps_.size(); ++s) lanes_[lane_of(schedule_[s].queue)].push_back(s);
  others_ = std::make_unique<WorkerThreads>(num_lanes - 1);
}

void CpuRunner::run_step(std::size_t step) {
  if (timings_.empty()) return steps_[step].kernel->run(steps_[step].io());
  timings_[step].begin = Clock::now();
  steps_[step].kernel->run(steps_[step].io());
  timings_[step].end = Clock::now();
}

void CpuRunner::run() {
  omp_set_num_threads(threads_);
  if (!others_) {
    for (std::size_t s = 0; s < steps_.size(); ++s) run_step(s);
    return;
  }
  is_done_.assign(steps_.size(), false);
  has_failed_ = false;
  const WorkerThreads::Task run_other = [&](std::size_t worker) {
    // A team of its own would take the computation's cores, for copies that are short.
    omp_set_num_threads(1);
    run_lane(worker + 1);
  };
  others_->start(run_other);
  run_lane(0);
  others_->wait();
  error_.rethrow();
}

std::vector<Span> CpuRunner::profile() {
  timings_.resize(steps_.size());
  const auto start = Clock::now();
  const std::chrono::nanoseconds since_epoch = std::chrono::system_clock::now().time_since_epoch();
  run();
  std::vector<Span> spans;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Span& span = spans.emplace_back(span_of(steps_[s]));
    span.begin = since_epoch + (timings_[s].begin - start);
    span.duration = timings_[s].end - timings_[s].begin;
  }
  timings_.clear();
  return spans;
}

bool CpuRunner::may_start(std::size_t step) const {
  return std::ranges::all_of(schedule_[step].waits_for,
                             [&](std::size_t earlier) { return is_done_[earlier]; });
}

void CpuRunner::run_lane(std::size_t lane) {
  try {
    for (const std::size_t step : lanes_[lane]) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return has_failed_ || may_start(step); });
        if (has_failed_) return;
      }
      run_step(step);
      const std::lock_guard lock(mutex_);
      is_done_[step] = true;
      if (schedule_[step].signals) changed_.notify_all();
    }
  } catch (...) {
    error_.store();
    {
      const std::lock_guard lock(mutex_);
      has_failed_ = true;
    }
    changed_.notify_all();
    if (collectives_ != nullptr) collectives_->abort();  // what the other lanes wait in ends
  }
}

}  // namespace autopar::runtime
