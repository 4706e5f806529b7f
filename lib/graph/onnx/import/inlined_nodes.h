#pragma once

#include "graph/onnx/import_limits.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

/// Throws LimitReached where the model would have more nodes than the limits allow if all calls of
/// its functions were replaced by what is in them, and Error where a function calls itself.
void check_inlined_nodes(const ModelFile& file, const ImportLimits& limits);

}  // namespace autopar::graph
