#include "runtime/devices/cuda/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "graph/error.h"
#include "runtime/devices/cuda/nvtx_range.h"

namespace autopar::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// How often other ranks are looked after while the device works.
constexpr auto check_interval = std::chrono::milliseconds(100);

/// Sleeps for a hundredth of what the wait has lasted, so that it ends hardly later for it.
void pause(Clock::duration waited) {
  constexpr auto shortest = std::chrono::microseconds(10);
  constexpr auto longest = std::chrono::microseconds(100);
  const auto sleep = waited / 100;
  if (sleep < shortest)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::min<Clock::duration>(sleep, longest));
}

/// A stream takes some thousand launches; one more blocks the host, which then watches nothing. So
/// where other ranks may fail, the host is never further ahead than two batches of steps.
constexpr std::size_t batch_steps = 64;

/// Of two events with times, both complete.
std::chrono::nanoseconds between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "timing a step");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
}

/// "all-reduce", or "all-gather and all-reduce" of a group.
std::string kinds_of(const CollectiveKernel& collective) {
  std::vector<std::string> kinds;
  for (const bundle::CollectiveTotal& call : collective.payload()) kinds.push_back(call.kind);
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  return fmt::format("{}", fmt::join(kinds, " and "));
}

/// Makes `waiting` go on only when all that is in `stream` now is complete.
void wait_for(cudaStream_t waiting, const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "ordering streams");
  check(cudaStreamWaitEvent(waiting, event.get(), 0), "ordering streams");
}

/// What a stream, and those that wait for it, get while this lives is recorded, not executed.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing the run");
  }
  ~Capture() {
    if (stream_ != nullptr) end();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  GraphExec instantiate() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph), "capturing the run");
    const Graph owned(graph);
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0), "making the run's graph");
    return GraphExec(exec);
  }

 private:
  void end() {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    cudaGetLastError();
    const Graph dropped(graph);
  }

  cudaStream_t stream_;
};

}  // namespace

CudaRunner::CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives)
    : device_(device),
      steps_(std::move(steps)),
      collectives_(collectives),
      fork_(make_event()),
      join_(make_event()),
      done_(make_event()),
      batches_{Batch{make_event(), make_event()}, Batch{make_event(), make_event()}} {
  std::vector<StepAccess> accesses;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    accesses.push_back(access_of(steps_[s]));
    const auto* collective = dynamic_cast<const CollectiveKernel*>(steps_[s].kernel.get());
    if (collective == nullptr) continue;
    collective_steps_.push_back(s);
    if (collective->waits_on_host()) can_be_captured_ = false;
  }
  has_others_ =
      !collective_steps_.empty() && collectives_ != nullptr && collectives_->world_size() > 1;
  schedule_ = schedule(accesses);
  for (const ScheduledStep& step : schedule_)
    complete_.push_back(step.signals ? make_event() : Event());
}

void CudaRunner::run() {
  run_launched([&] {
    if (graph_)
      check(cudaGraphLaunch(graph_.get(), device_.compute_stream()), "launching the run");
    else
      enqueue({}, true);
  });
}

std::vector<Span> CudaRunner::profile() {
  const Event start = make_event(cudaEventDefault);
  std::vector<Timing> timings;
  for (std::size_t s = 0; s < steps_.size(); ++s)
    timings.push_back({make_event(cudaEventDefault), make_event(cudaEventDefault)});
  std::chrono::nanoseconds since_epoch{};
  run_launched([&] {
    check(cudaEventRecord(start.get(), device_.compute_stream()), "timing the run");
    check(cudaEventSynchronize(start.get()), "timing the run");
    since_epoch = std::chrono::system_clock::now().time_since_epoch();
    enqueue(timings, true);
  });
  std::vector<Span> spans;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Span& span = spans.emplace_back(span_of(steps_[s], schedule_[s].queue));
    const auto begin = between(start, timings[s].begin);
    span.begin = since_epoch + begin;
    span.duration = between(start, timings[s].end) - begin;
  }
  return spans;
}

cudaStream_t CudaRunner::stream_of(Queue queue) const {
  return queue == Queue::communication ? device_.collective_stream() : device_.compute_stream();
}

void CudaRunner::enqueue(const std::vector<Timing>& timings, bool is_watched) {
  const bool forks = !collective_steps_.empty();
  if (forks) wait_for(device_.collective_stream(), fork_, device_.compute_stream());
  unsigned collective = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const ScheduledStep& place = schedule_[s];
    cudaStream_t stream = stream_of(place.queue);
    const bool is_marked = has_others_ && place.queue == Queue::communication;
    if (place.waits_for)
      check(cudaStreamWaitEvent(stream, complete_[*place.waits_for].get(), 0), "ordering streams");
    const NvtxRange range(step.node);
    if (is_marked) progress_.mark_start(stream, ++collective);
    if (!timings.empty()) check(cudaEventRecord(timings[s].begin.get(), stream), "timing a step");
    step.kernel->run(step.io(stream));
    if (!timings.empty()) check(cudaEventRecord(timings[s].end.get(), stream), "timing a step");
    if (is_marked) progress_.mark_end(stream, collective);
    if (place.signals) check(cudaEventRecord(complete_[s].get(), stream), "ordering streams");
    if (is_watched && has_others_ && (s + 1) % batch_steps == 0) keep_pace((s + 1) / batch_steps);
  }
  if (forks) wait_for(device_.compute_stream(), join_, device_.collective_stream());
}

void CudaRunner::keep_pace(std::size_t batch) {
  Batch& other = batches_[batch % 2];
  if (batch > 1) {
    watch(other.computation);
    watch(other.communication);
  }
  check(cudaEventRecord(other.computation.get(), device_.compute_stream()), "the run");
  check(cudaEventRecord(other.communication.get(), device_.collective_stream()), "the run");
}

void CudaRunner::capture() {
  {
    Capture capture(device_.compute_stream());
    enqueue({}, false);
    graph_ = capture.instantiate();
  }
  // Else the first launch allocates, while other ranks' kernels may already wait for this one's.
  check(cudaGraphUpload(graph_.get(), device_.compute_stream()), "making the run's graph");
  check(cudaStreamSynchronize(device_.compute_stream()), "making the run's graph");
}

void CudaRunner::run_launched(const std::function<void()>& launch) {
  try {
    progress_.reset();
    launch();
    check(cudaEventRecord(done_.get(), device_.compute_stream()), "the run");
    watch(done_);
    if (has_others_) {
      collectives_->report_progress(progress_at(static_cast<unsigned>(collective_steps_.size())));
      // Collectives that are aborted end, too, but with nothing that is of use.
      collectives_->check_members();
    }
    device_.faults().throw_if_any();
    if (!graph_ && can_be_captured_) capture();
    ++runs_;
  } catch (...) {
    graph_.reset();  // NCCL's abort waits for graphs that hold its collectives
    if (collectives_ != nullptr) collectives_->abort();
    throw;
  }
}

void CudaRunner::watch(const Event& event) {
  const auto start = Clock::now();
  auto checked = start;
  auto moved = start;
  Progress::Marks last;
  while (true) {
    const cudaError_t state = cudaEventQuery(event.get());
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady)
      fail(
          "a kernel of the run failed on GPU {} ({}); compute-sanitizer tells which, --device cpu "
          "runs without it",
          device_.number(), cudaGetErrorString(state));
    const auto now = Clock::now();
    if (has_others_) {
      const Progress::Marks marks = progress_.read();
      if (marks != last) {
        last = marks;
        moved = now;
        collectives_->report_progress(progress_at(marks.started));
      }
      if (marks.in_collective() && now - moved >= collectives_->timeout()) fail_late(marks.started);
      if (now - checked >= check_interval) {
        collectives_->check_members();
        checked = now;
      }
    }
    pause(now - start);
  }
}

void CudaRunner::fail_late(unsigned collective) const {
  const Step& step = steps_[collective_steps_.at(collective - 1)];
  const auto& kernel = dynamic_cast<const CollectiveKernel&>(*step.kernel);
  const std::vector<int> behind =
      collectives_->ranks_behind(kernel.ranks(), progress_at(collective));
  const std::chrono::duration<double> timeout = collectives_->timeout();
  fail("rank {}: {} of node '{}' among ranks {} did not finish within {:g} s{}",
       collectives_->world_rank(), kinds_of(kernel), step.node, fmt::join(kernel.ranks(), ", "),
       timeout.count(),
       behind.empty()
           ? ""
           : fmt::format("; rank(s) that did not start it: {}", fmt::join(behind, ", ")));
}

std::int64_t CudaRunner::progress_at(unsigned collective) const {
  return runs_ * static_cast<std::int64_t>(collective_steps_.size() + 1) + collective;
}

}  // namespace autopar::runtime::cuda
