#include "runtime/devices/cuda/runner.h"

#include <utility>

#include "runtime/devices/cuda/nvtx_range.h"

namespace autopar::runtime::cuda {
namespace {

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
      done_(make_event()) {
  std::vector<StepAccess> accesses;
  for (const Step& step : steps_) {
    accesses.push_back(access_of(step));
    const auto* collective = dynamic_cast<const CollectiveKernel*>(step.kernel.get());
    if (collective == nullptr) continue;
    has_collectives_ = true;
    if (collective->waits_on_host()) can_be_captured_ = false;
  }
  schedule_ = schedule(accesses);
  for (const ScheduledStep& step : schedule_)
    complete_.push_back(step.signals ? make_event() : Event());
}

void CudaRunner::run() {
  if (graph_)
    check(cudaGraphLaunch(graph_.get(), device_.compute_stream()), "launching the run");
  else
    enqueue();
  check(cudaEventRecord(done_.get(), device_.compute_stream()), "the run");
  check(cudaEventSynchronize(done_.get()), "the run");
  device_.faults().throw_if_any();
  if (!graph_ && can_be_captured_) capture();
}

cudaStream_t CudaRunner::stream_of(Queue queue) const {
  return queue == Queue::communication ? device_.collective_stream() : device_.compute_stream();
}

void CudaRunner::enqueue() {
  if (has_collectives_) wait_for(device_.collective_stream(), fork_, device_.compute_stream());
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const ScheduledStep& place = schedule_[s];
    cudaStream_t stream = stream_of(place.queue);
    if (place.waits_for)
      check(cudaStreamWaitEvent(stream, complete_[*place.waits_for].get(), 0), "ordering streams");
    const NvtxRange range(step.node);
    step.kernel->run(step.io(stream));
    if (place.signals) check(cudaEventRecord(complete_[s].get(), stream), "ordering streams");
  }
  if (has_collectives_) wait_for(device_.compute_stream(), join_, device_.collective_stream());
}

void CudaRunner::capture() {
  Capture capture(device_.compute_stream());
  enqueue();
  graph_ = capture.instantiate();
}

}  // namespace autopar::runtime::cuda
