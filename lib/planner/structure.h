#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "graph/graph.h"
#include "runtime/session_options.h"

/// What is known of a bundle's model beside its profiles: bundle::MetaInfo::structure.
namespace autopar::planner {

/// "x 1x128, mask 1x128"
std::string text_of(const runtime::InputShapes& inputs);

/// The model with inputs of these shapes, ready to be split, within these limits
/// (graph/onnx/import_limits.h). Weights have no data. Throws Error where the model does not take
/// them.
graph::Graph import_structure(const std::filesystem::path& bundle_dir,
                              const runtime::InputShapes& inputs, const std::string& limits);

/// Shapes as the model itself declares them, by input and output, with -1 for what may vary. Empty
/// where the bundle has no structure.
std::map<std::string, graph::Shape> declared_shapes(const std::filesystem::path& bundle_dir);

}  // namespace autopar::planner
