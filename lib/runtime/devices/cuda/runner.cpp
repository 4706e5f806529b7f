#include "runtime/devices/cuda/runner.h"

#include <utility>

namespace autopar::runtime::cuda {

CudaRunner::CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives)
    : device_(device), steps_(std::move(steps)), collectives_(collectives), done_(make_event()) {}

void CudaRunner::run() {
  cudaStream_t stream = device_.compute_stream();
  if (!has_run_) {
    enqueue();
  } else {
    if (!graph_) capture();
    check(cudaGraphLaunch(graph_.get(), stream), "launching the run");
  }
  check(cudaEventRecord(done_.get(), stream), "the run");
  check(cudaEventSynchronize(done_.get()), "the run");
  device_.faults().throw_if_any();
  has_run_ = true;
}

void CudaRunner::enqueue() {
  for (const Step& step : steps_) {
    step.kernel->run(step.io(device_.compute_stream()));
  }
}

void CudaRunner::capture() {
  cudaStream_t stream = device_.compute_stream();
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing the run");
  enqueue();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "capturing the run");
  const Graph owned(graph);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0), "making the run's graph");
  graph_.reset(exec);
}

}  // namespace autopar::runtime::cuda
