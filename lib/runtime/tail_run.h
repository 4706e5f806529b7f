#pragma once

#include <filesystem>
#include <functional>

#include "graph/tail.h"
#include "runtime/named_tensors.h"

namespace autopar::runtime {

/// The model's outputs, of its inputs and of what ranks have made. Throws Error naming the node
/// that fails.
using TailRun = std::function<NamedTensors(const NamedTensors& inputs, const NamedTensors& made)>;

/// Computes the tail of a model on the CPU, in one thread's name, by the host's kernels. Its file
/// is read now, once for all runs.
TailRun load_tail(const std::filesystem::path& model_file, graph::TailSummary summary, int threads);

}  // namespace autopar::runtime
