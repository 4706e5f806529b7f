#include "runtime/devices/cuda/runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvtx3/nvToolsExt.h>

#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/devices/cuda/pause.h"
#include "runtime/kernels/movement/strided_copy_cuda.h"

namespace autopar::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// How often other ranks are looked after while the device works.
constexpr auto check_interval = std::chrono::milliseconds(100);

/// What collectives that were aborted may take to leave the GPU.
constexpr auto settling_time = std::chrono::seconds(5);

/// A stream takes some thousand launches; one more blocks the host, which then watches nothing. So
/// where other ranks may fail, the host is never further ahead than two batches of steps.
constexpr std::size_t batch_steps = 64;

/// Seconds between two complete events with times.
std::chrono::nanoseconds between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "timing a step");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
}

/// "all-reduce", or "all-gather and all-reduce" of a group.
std::string kinds_of(const CollectiveKernel& collective) {
  if (collective.queue() == Queue::receive) return "receive";
  std::set<std::string> kinds;
  for (const bundle::CollectiveTotal& call : collective.payload()) kinds.insert(call.kind);
  return fmt::format("{}", fmt::join(kinds, " and "));
}

constexpr std::array all_queues = {Queue::computation, Queue::communication, Queue::receive,
                                   Queue::send};

std::size_t at(Queue queue) { return static_cast<std::size_t>(queue); }

std::array<Event, num_queues> make_events() {
  std::array<Event, num_queues> events;
  for (Event& event : events) event = make_event();
  return events;
}

/// Names what this thread launches while it lives, for NVIDIA's profilers.
struct NvtxRange {
  explicit NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

/// What `work` gives the stream, and those that wait for it: it is recorded, not executed.
template <typename Work>
GraphExec captured(cudaStream_t stream, const Work& work) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing the run");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    cudaGetLastError();
    const Graph dropped(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "capturing the run");
  const Graph owned(graph);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0), "making the run's graph");
  return GraphExec(exec);
}

}  // namespace

CudaRunner::CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives)
    : device_(device),
      steps_(std::move(steps)),
      collectives_(collectives),
      fork_(make_event()),
      join_(make_events()),
      begin_(make_event(cudaEventDefault)),
      done_(make_event(cudaEventDefault)),
      batches_{make_events(), make_events()} {
  std::vector<StepAccess> accesses;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    accesses.push_back(access_of(steps_[s]));
    const auto* collective = collective_of(steps_[s]);
    if (collective == nullptr) continue;
    collective_steps_[at(collective->queue())].push_back(s);
    if (collective->waits_on_host()) can_be_captured_ = false;
  }
  for (const Queue queue : all_queues)
    if (!collective_steps_[at(queue)].empty()) other_queues_.push_back(queue);
  has_others_ = !other_queues_.empty() && collectives_ != nullptr && collectives_->world_size() > 1;
  if (has_others_) {
    load_write_mark();
    load_strided_copies();
  }
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

double CudaRunner::device_seconds() const {
  if (runs_ == 0) return 0;
  return std::chrono::duration<double>(between(begin_, done_)).count();
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
    Span& span = spans.emplace_back(span_of(steps_[s]));
    const auto begin = between(start, timings[s].begin);
    span.begin = since_epoch + begin;
    span.duration = between(start, timings[s].end) - begin;
  }
  return spans;
}

void CudaRunner::enqueue(const std::vector<Timing>& timings, bool is_watched) {
  if (!other_queues_.empty())
    check(cudaEventRecord(fork_.get(), device_.compute_stream()), "ordering streams");
  for (const Queue queue : other_queues_)
    check(cudaStreamWaitEvent(device_.stream(queue), fork_.get(), 0), "ordering streams");
  std::array<unsigned, num_queues> started{};
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const ScheduledStep& place = schedule_[s];
    cudaStream_t stream = device_.stream(place.queue);
    const bool is_marked = has_others_ && place.queue != Queue::computation;
    for (const std::size_t earlier : place.waits_for)
      check(cudaStreamWaitEvent(stream, complete_[earlier].get(), 0), "ordering streams");
    const NvtxRange range(step.node);
    if (is_marked) progress_of(place.queue).mark_start(stream, ++started[at(place.queue)]);
    if (!timings.empty()) check(cudaEventRecord(timings[s].begin.get(), stream), "timing a step");
    step.kernel->run(step.io(stream));
    if (!timings.empty()) check(cudaEventRecord(timings[s].end.get(), stream), "timing a step");
    if (is_marked) progress_of(place.queue).mark_end(stream, started[at(place.queue)]);
    if (place.signals) check(cudaEventRecord(complete_[s].get(), stream), "ordering streams");
    if (is_watched && is_marked && runs_ == 0) finish(stream);
    if (is_watched && has_others_ && (s + 1) % batch_steps == 0) keep_pace((s + 1) / batch_steps);
  }
  for (const Queue queue : other_queues_) {
    check(cudaEventRecord(join_[at(queue)].get(), device_.stream(queue)), "ordering streams");
    check(cudaStreamWaitEvent(device_.compute_stream(), join_[at(queue)].get(), 0),
          "ordering streams");
  }
}

void CudaRunner::finish(cudaStream_t stream) {
  check(cudaEventRecord(done_.get(), stream), "the run");
  watch(done_);
}

void CudaRunner::keep_pace(std::size_t batch) {
  Batch& other = batches_[batch % 2];
  const auto for_each_stream = [&](const auto& visit) {
    visit(Queue::computation);
    for (const Queue queue : other_queues_) visit(queue);
  };
  if (batch > 1) for_each_stream([&](Queue queue) { watch(other[at(queue)]); });
  for_each_stream([&](Queue queue) {
    check(cudaEventRecord(other[at(queue)].get(), device_.stream(queue)), "the run");
  });
}

void CudaRunner::capture() {
  graph_ = captured(device_.compute_stream(), [&] { enqueue({}, false); });
  // Else the first launch allocates, while other ranks' kernels may already wait for this one's.
  check(cudaGraphUpload(graph_.get(), device_.compute_stream()), "making the run's graph");
  check(cudaStreamSynchronize(device_.compute_stream()), "making the run's graph");
}

void CudaRunner::run_launched(const std::function<void()>& launch) {
  try {
    for (Progress& progress : progress_) progress.reset();
    check(cudaEventRecord(begin_.get(), device_.compute_stream()), "the run");
    launch();
    finish(device_.compute_stream());
    if (has_others_) {
      const std::size_t all = collective_steps_[at(Queue::communication)].size();
      collectives_->report_progress(progress_at(static_cast<unsigned>(all)));
      // Collectives that are aborted end, too, but with nothing that is of use.
      collectives_->check_members();
    }
    device_.faults().throw_if_any();
    if (!graph_ && can_be_captured_) capture();
    ++runs_;
  } catch (...) {
    if (collectives_ != nullptr) {
      collectives_->abort();
      settle();
    }
    graph_.reset();  // NCCL's abort ends when no graph has its collectives
    throw;
  }
}

void CudaRunner::settle() const {
  const auto start = Clock::now();
  while (cudaStreamQuery(device_.compute_stream()) == cudaErrorNotReady) {
    const auto waited = Clock::now() - start;
    if (waited > settling_time) return;
    pause(waited);
  }
}

void CudaRunner::watch(const Event& event) {
  const auto start = Clock::now();
  auto checked = start;
  std::array<Clock::time_point, num_queues> moved;
  moved.fill(start);
  std::array<Progress::Marks, num_queues> last{};
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
      for (const Queue queue : other_queues_) {
        const Progress::Marks marks = progress_of(queue).read();
        // Collectives have a deadline of their own here.
        if (marks != last[at(queue)] || marks.in_collective()) collectives_->note_work();
        if (marks != last[at(queue)]) {
          last[at(queue)] = marks;
          moved[at(queue)] = now;
          if (queue == Queue::communication)
            collectives_->report_progress(progress_at(marks.started));
        }
        if (marks.in_collective() && now - moved[at(queue)] >= collectives_->timeout())
          fail_late(queue, marks.started);
      }
      if (now - checked >= check_interval) {
        collectives_->check_members();
        checked = now;
      }
    }
    pause(now - start);
  }
}

void CudaRunner::fail_late(Queue queue, unsigned number) const {
  const Step& step = steps_[collective_steps_[at(queue)].at(number - 1)];
  const CollectiveKernel& kernel = *collective_of(step);
  // Other stages' ranks count collectives of their own.
  const std::vector<int> behind =
      queue == Queue::communication
          ? collectives_->ranks_behind(kernel.ranks(), progress_at(number))
          : std::vector<int>();
  const std::chrono::duration<double> timeout = collectives_->timeout();
  fail("rank {}: {} of node '{}' among ranks {} did not finish within {:g} s{}",
       collectives_->world_rank(), kinds_of(kernel), step.node, fmt::join(kernel.ranks(), ", "),
       timeout.count(),
       behind.empty()
           ? ""
           : fmt::format("; rank(s) that did not start it: {}", fmt::join(behind, ", ")));
}

std::int64_t CudaRunner::progress_at(unsigned collective) const {
  const std::size_t all = collective_steps_[at(Queue::communication)].size();
  return runs_ * static_cast<std::int64_t>(all + 1) + collective;
}

}  // namespace autopar::runtime::cuda
