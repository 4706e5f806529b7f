#include "runtime/devices/cpu_device.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/wait_until.h"
#include "base/work_signs.h"
#include "runtime/collectives.h"
#include "runtime/devices/thread_team.h"
#include "runtime/first_error.h"
#include "runtime/kernels/cpu/strided_copy.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"
#include "runtime/worker_threads.h"

namespace autopar::runtime {
namespace {

/// libgomp's barriers are unknown to ThreadSanitizer, which would report every parallel loop: there
/// each rank has one thread, and what is checked is the ranks' communication.
int usable_threads(int threads) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(threads);
  return 1;
#else
  return threads;
#endif
}

/// One after the other, with no more threads than the calling one may have.
class CpuStridedCopies final : public StridedCopies {
 public:
  CpuStridedCopies(std::vector<CopyLayout> layouts, int threads) : threads_(threads) {
    for (CopyLayout& each : layouts)
      copies_.emplace_back(std::move(each.shape), std::move(each.in_strides),
                           std::move(each.out_strides), each.element_bytes);
  }
  void run(std::span<const CopyPlace> places, void*) const override {
    const int threads = std::min(threads_, omp_get_max_threads());
    for (std::size_t i = 0; i < copies_.size(); ++i)
      copies_[i].run(places[i].in, places[i].out, threads);
  }

 private:
  std::vector<cpu::StridedCopy> copies_;
  int threads_;
};

constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Loops over large tensors look pages up less often then. Where the system has none, small ones
/// do.
void ask_for_huge_pages(std::byte* memory, std::size_t bytes) {
  if (bytes >= huge_page) ::madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
}

using Clock = std::chrono::steady_clock;

/// Lane 0 is the calling thread's, 1 receives, 2 sends.
constexpr std::size_t num_lanes = 3;

std::size_t lane_of(Queue queue) {
  if (queue == Queue::receive) return 1;
  return queue == Queue::send ? 2 : 0;
}

/// Computes and communicates within the stage in the calling thread, in the order given. What comes
/// from other stages, and what goes there, each has a thread of its own, where there is any. A step
/// that fails ends the run in all of them, of all ranks. `threads`: of each kernel.
class CpuRunner final : public Runner {
 public:
  CpuRunner(std::vector<Step> steps, int threads, CollectiveContext* collectives)
      : steps_(std::move(steps)), team_(threads), collectives_(collectives) {
    const auto is_first_lanes = [](const Step& step) { return lane_of(queue_of(step)) == 0; };
    if (std::ranges::all_of(steps_, is_first_lanes)) return;
    std::vector<StepAccess> accesses;
    for (const Step& step : steps_) accesses.push_back(access_of(step));
    schedule_ = schedule(accesses);
    for (std::size_t s = 0; s < steps_.size(); ++s)
      lanes_[lane_of(schedule_[s].queue)].push_back(s);
    others_ = std::make_unique<WorkerThreads>(num_lanes - 1);
  }

  std::int64_t launches() const override { return static_cast<std::int64_t>(steps_.size()); }

  void run() override {
    omp_set_num_threads(team_.threads());
    team_.move_apart();
    if (!others_) {
      for (std::size_t s = 0; s < steps_.size(); ++s) run_step(s);
      return;
    }
    is_done_.assign(steps_.size(), false);
    has_failed_ = false;
    WorkListener* const listener = work_listener();
    const WorkerThreads::Task run_other = [&, listener](std::size_t worker) {
      const WorkScope work(listener);
      // A team of its own would take the computation's cores, for copies that are short.
      omp_set_num_threads(1);
      run_lane(worker + 1);
    };
    others_->start(run_other);
    run_lane(0);
    others_->wait();
    error_.rethrow();
  }

  std::vector<Span> profile() override {
    timings_.resize(steps_.size());
    const auto start = Clock::now();
    const std::chrono::nanoseconds since_epoch =
        std::chrono::system_clock::now().time_since_epoch();
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

 private:
  struct Timing {
    Clock::time_point begin;
    Clock::time_point end;
  };

  void run_step(std::size_t step) {
    note_work();
    if (timings_.empty()) return steps_[step].kernel->run(steps_[step].io());
    timings_[step].begin = Clock::now();
    steps_[step].kernel->run(steps_[step].io());
    timings_[step].end = Clock::now();
  }

  bool may_start(std::size_t step) const {
    return std::ranges::all_of(schedule_[step].waits_for,
                               [&](std::size_t earlier) { return is_done_[earlier]; });
  }

  /// Until all of the lane's steps are done, or some lane has failed.
  void run_lane(std::size_t lane) {
    try {
      for (const std::size_t step : lanes_[lane]) {
        {
          std::unique_lock lock(mutex_);
          wait_until(changed_, lock, [&] { return has_failed_ || may_start(step); });
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

  std::vector<Step> steps_;
  ThreadTeam team_;
  CollectiveContext* collectives_;
  std::vector<Timing> timings_;  ///< by step, of a profiled run; else empty

  /// The steps that each lane takes in turn. Empty where all are the calling thread's.
  std::array<std::vector<std::size_t>, num_lanes> lanes_;
  std::vector<ScheduledStep> schedule_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> is_done_;  ///< by step, in this run
  bool has_failed_ = false;
  FirstError error_;
  std::unique_ptr<WorkerThreads> others_;  ///< of the lanes but the first; null where there is none
};

void copy_bytes(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// Throws Error where so many threads beside the calling one cannot be at a time: libgomp would end
/// the process within a kernel. It keeps the ones that it has started, of which each thread that
/// makes a device has its own.
void check_threads(int others) {
  static thread_local int most_checked = 0;
  if (others <= most_checked) return;
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::jthread> started;
  try {
    while (std::ssize(started) < others) started.emplace_back([ended] { ended.wait(); });
  } catch (const std::system_error& error) {
    const std::size_t count = started.size();
    end.set_value();
    fail(
        "{} threads cannot be started, but {}: {}; give --threads {}, or raise the limit of "
        "processes (ulimit -u) or of memory (ulimit -v)",
        others + 1, count + 1, error.code().message(), (count + 1) / 2);
  } catch (...) {  // no memory for one
    end.set_value();
    throw;
  }
  end.set_value();
  most_checked = others;
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : threads_(usable_threads(threads)), threads_before_(omp_get_max_threads()) {
  check_threads(threads_ - 1);
  omp_set_num_threads(threads_);
}

CpuDevice::~CpuDevice() { omp_set_num_threads(threads_before_); }

std::shared_ptr<std::byte> CpuDevice::allocate(std::int64_t bytes) {
  constexpr std::size_t line = 64;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const std::align_val_t alignment{size < huge_page ? line : huge_page};
  auto* const memory = static_cast<std::byte*>(::operator new(size, alignment));
  ask_for_huge_pages(memory, size);
  return {memory, [alignment](std::byte* of) { ::operator delete(of, alignment); }};
}

void CpuDevice::write(std::byte* to, std::span<const std::byte> from) { copy_bytes(to, from); }

void CpuDevice::read(std::span<std::byte> to, const std::byte* from) {
  copy_bytes(to.data(), {from, to.size()});
}

std::unique_ptr<StridedCopies> CpuDevice::make_strided_copies(std::vector<CopyLayout> layouts) {
  return std::make_unique<CpuStridedCopies>(std::move(layouts), threads_);
}

void CpuDevice::fill(std::byte* to, std::byte value, std::int64_t bytes, void*) {
  std::fill_n(to, bytes, value);
}

std::unique_ptr<Runner> CpuDevice::make_runner(std::vector<Step> steps,
                                               CollectiveContext* collectives) {
  return std::make_unique<CpuRunner>(std::move(steps), threads_, collectives);
}

}  // namespace autopar::runtime
