#include "planner/structure.h"

#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "base/error.h"
#include "bundle/meta_info.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/onnx_overview.h"
#include "planner/load_model.h"

namespace autopar::planner {
namespace {

namespace fs = std::filesystem;

/// A number; -1 for a symbol.
std::int64_t declared_extent(const std::string& dim) {
  std::int64_t extent = 0;
  const char* const end = dim.data() + dim.size();
  const auto [rest, error] = std::from_chars(dim.data(), end, extent);
  return error == std::errc() && rest == end && extent >= 0 ? extent : -1;
}

}  // namespace

std::string text_of(const runtime::InputShapes& inputs) {
  std::vector<std::string> shapes;
  for (const auto& [name, shape] : inputs)
    shapes.push_back(fmt::format("{} {}", name, graph::to_string(shape)));
  return fmt::format("{}", fmt::join(shapes, ", "));
}

graph::Graph import_structure(const fs::path& bundle_dir, const runtime::InputShapes& inputs,
                              const std::string& limits) {
  graph::ImportOptions how = common_import_options();
  how.shapes = {inputs.begin(), inputs.end()};
  how.shapes_are_of_tensors = true;
  how.weights_may_be_absent = true;
  how.limits = graph::parse_import_limits(limits);
  graph::Graph graph;
  try {
    graph = graph::load_onnx(bundle_dir / bundle::structure_file, how);
  } catch (const Error& error) {
    fail("{}: the model does not take inputs of these shapes ({}): {}", bundle_dir.string(),
         text_of(inputs), error.what());
  }
  prepare_for_splits(graph);
  return graph;
}

std::map<std::string, graph::Shape> declared_shapes(const fs::path& bundle_dir) {
  std::map<std::string, graph::Shape> shapes;
  const bundle::MetaInfo info = bundle::load_meta_info(bundle_dir);
  if (info.structure.empty()) return shapes;
  bundle::check_common_files(info.structure, bundle_dir);
  const graph::ModelOverview overview = graph::onnx_overview(bundle_dir / bundle::structure_file);
  for (const auto* ports : {&overview.inputs, &overview.outputs})
    for (const graph::ModelOverview::Port& port : *ports)
      for (const std::string& dim : port.dims) shapes[port.name].push_back(declared_extent(dim));
  return shapes;
}

}  // namespace autopar::planner
