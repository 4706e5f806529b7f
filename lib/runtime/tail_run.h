#pragma once

#include <filesystem>

#include "graph/onnx/onnx_interpreter.h"
#include "graph/tail.h"
#include "runtime/batch_parts.h"

namespace autopar::runtime {

/// Computes the tail of a model on the CPU, in one thread's name, by the host's kernels.
class TailRun {
 public:
  /// Reads the tail's file, once for all runs.
  TailRun(const std::filesystem::path& model_file, graph::TailSummary summary, int threads);

  /// The model's outputs, of its inputs and of what ranks have made. Throws Error naming the node
  /// that fails.
  NamedTensors run(const NamedTensors& inputs, const NamedTensors& made) const;

 private:
  graph::TailSummary summary_;
  graph::OnnxInterpreter interpreter_;
};

}  // namespace autopar::runtime
