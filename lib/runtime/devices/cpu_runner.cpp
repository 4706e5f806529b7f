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
    : steps_(std::move(steps)), threads_(threads), collectives_(collectives), lanes_(1) {
  for (const Step& step : steps_) {
    const auto* collective = dynamic_cast<const CollectiveKernel*>(step.kernel.get());
    queues_.push_back(collective ? collective->queue() : Queue::computation);
  }
  if (std::ranges::all_of(queues_, [](Queue queue) { return lane_of(queue) == 0; })) return;
  std::vector<StepAccess> accesses;
  for (const Step& step : steps_) accesses.push_back(access_of(step));
  lanes_.resize(3);
  share_out(schedule(accesses));
  for (const std::size_t lane : {1U, 2U})
    if (!lanes_[lane].turns.empty()) workers_.emplace_back([this, lane] { serve(lane); });
}

CpuRunner::~CpuRunner() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

void CpuRunner::share_out(const std::vector<ScheduledStep>& schedule) {
  std::vector<std::size_t> turn_of;  // by step
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    const std::size_t own = lane_of(schedule[s].queue);
    turn_of.push_back(lanes_[own].turns.size());
    Lane::Turn& turn = lanes_[own].turns.emplace_back();
    turn.step = s;
    for (const std::size_t earlier : schedule[s].waits_for) {
      const std::size_t lane = lane_of(schedule[earlier].queue);
      if (lane == own) continue;
      turn.waits.push_back({lane, turn_of[earlier] + 1});
      lanes_[lane].turns[turn_of[earlier]].signals = true;
    }
  }
}

void CpuRunner::run_step(std::size_t step) {
  if (timings_.empty()) return steps_[step].kernel->run(steps_[step].io());
  timings_[step].begin = Clock::now();
  steps_[step].kernel->run(steps_[step].io());
  timings_[step].end = Clock::now();
}

void CpuRunner::run() {
  omp_set_num_threads(threads_);
  if (workers_.empty()) {
    for (std::size_t s = 0; s < steps_.size(); ++s) run_step(s);
    return;
  }
  start_run();
  run_lane(0);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return at_work_ == 0; });
  }
  error_.rethrow();
}

std::vector<Span> CpuRunner::profile() {
  timings_.resize(steps_.size());
  const auto start = Clock::now();
  const std::chrono::nanoseconds since_epoch = std::chrono::system_clock::now().time_since_epoch();
  run();
  std::vector<Span> spans;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Span& span = spans.emplace_back(span_of(steps_[s], queues_[s]));
    span.begin = since_epoch + (timings_[s].begin - start);
    span.duration = timings_[s].end - timings_[s].begin;
  }
  timings_.clear();
  return spans;
}

void CpuRunner::start_run() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) lane.done = 0;
  has_failed_ = false;
  at_work_ = workers_.size() + 1;
  ++runs_;
  changed_.notify_all();
}

bool CpuRunner::may_start(const Lane::Turn& turn) const {
  return std::ranges::all_of(
      turn.waits, [&](const Lane::Wait& wait) { return lanes_[wait.lane].done >= wait.steps; });
}

void CpuRunner::run_lane(std::size_t lane) {
  try {
    for (const Lane::Turn& turn : lanes_[lane].turns) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return has_failed_ || may_start(turn); });
        if (has_failed_) break;
      }
      run_step(turn.step);
      const std::lock_guard lock(mutex_);
      ++lanes_[lane].done;
      if (turn.signals) changed_.notify_all();
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
  const std::lock_guard lock(mutex_);
  --at_work_;
  changed_.notify_all();
}

void CpuRunner::serve(std::size_t lane) {
  // A team of its own would take the computation's cores, for copies that are short.
  omp_set_num_threads(1);
  for (std::size_t run = 1;; ++run) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_over_ || runs_ >= run; });
      if (is_over_) return;
    }
    run_lane(lane);
  }
}

}  // namespace autopar::runtime
