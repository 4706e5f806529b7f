#include "planner/independent_rows.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bundle/meta_info.h"
#include "graph/onnx/onnx_overview.h"
#include "planner/structure.h"
#include "program/split_batch.h"

namespace autopar::planner {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using runtime::BatchDims;
using runtime::InputShapes;
using Port = graph::ModelOverview::Port;

/// The batch that stands for all of them: few models have this extent elsewhere.
constexpr int tried_rows = 3;

/// By input.
using Dims = std::map<std::string, int>;

/// Whether a dimension has the symbol; those without a name have it where it stands in the first.
bool is_called(const std::string& dim, const std::string& symbol, std::size_t at,
               std::size_t first_at) {
  return dim == symbol && (symbol != "?" || at == first_at);
}

/// All dimensions of one symbol; nullopt where an input has it twice.
std::optional<Dims> dims_called(const std::string& symbol, std::size_t first_at,
                                const std::vector<Port>& inputs) {
  Dims dims;
  for (const Port& input : inputs)
    for (std::size_t d = 0; d < input.dims.size(); ++d)
      if (is_called(input.dims[d], symbol, d, first_at) &&
          !dims.emplace(input.name, static_cast<int>(d)).second)
        return std::nullopt;
  return dims;
}

/// Where the batch may be, by the open dimensions of the first input that has any.
std::vector<Dims> possible_batches(const std::vector<Port>& inputs) {
  std::vector<Dims> possible;
  for (const Port& input : inputs) {
    for (std::size_t d = 0; d < input.dims.size(); ++d) {
      if (!graph::is_open(input.dims[d])) continue;
      if (auto dims = dims_called(input.dims[d], d, inputs)) possible.push_back(std::move(*dims));
    }
    if (!possible.empty()) break;
  }
  return possible;
}

InputShapes with_rows(InputShapes inputs, const Dims& dims, std::int64_t rows) {
  for (const auto& [name, dim] : dims)
    if (const auto found = inputs.find(name); found != inputs.end())
      found->second.at(static_cast<std::size_t>(dim)) = rows;
  return inputs;
}

/// As program::find_batch wants them.
std::vector<std::string> named(const Dims& dims) {
  std::vector<std::string> texts;
  for (const auto& [name, dim] : dims) texts.push_back(fmt::format("{}={}", name, dim));
  return texts;
}

/// Where a batch of tried_rows is in the model's inputs and outputs.
BatchDims cut_dims(const Graph& graph, const Dims& dims) {
  const program::SplitBatch split =
      program::split_batch(graph, tried_rows, program::find_batch(graph, named(dims)));
  BatchDims found;
  for (const graph::ValueId input : graph.inputs)
    if (const auto port = split.ports.find(graph.value(input).name); port != split.ports.end())
      found.inputs.emplace(port->first, port->second.dim);
  for (const graph::ValueId output : graph.outputs) {
    const std::string& name = graph.value(output).name;
    const auto port = split.ports.find(name);
    if (port == split.ports.end()) fail("output '{}' has nothing of the batch", name);
    found.outputs.emplace(name, port->second.dim);
  }
  return found;
}

BatchDims prove(const fs::path& bundle_dir, const InputShapes& inputs, const Dims& dims,
                const std::string& limits) {
  const Graph one = import_structure(bundle_dir, with_rows(inputs, dims, 1), limits);
  const Graph several = import_structure(bundle_dir, with_rows(inputs, dims, tried_rows), limits);
  try {
    BatchDims found = cut_dims(several, dims);
    if (!program::differ_in_batch_alone(one, several, 1, tried_rows))
      fail("the model computes with the size of its batch");
    return found;
  } catch (const program::NoSuchCut& error) {
    fail("{}", error.reason);
  }
}

BatchDims prove_any(const fs::path& bundle_dir, const InputShapes& inputs,
                    const std::vector<Dims>& possible, const std::string& limits) {
  std::exception_ptr refusal;
  for (const Dims& dims : possible) {
    try {
      return prove(bundle_dir, inputs, dims, limits);
    } catch (const Error&) {
      if (!refusal) refusal = std::current_exception();
    }
  }
  if (refusal) std::rethrow_exception(refusal);
  fail("the model has no input whose batch may have another size");
}

}  // namespace

runtime::RowProof row_proof(const fs::path& bundle_dir, const std::string& limits) {
  if (bundle::load_meta_info(bundle_dir).structure.empty()) return {};
  const auto possible = std::make_shared<std::optional<std::vector<Dims>>>();
  return [=](const InputShapes& inputs) {
    if (!*possible)
      *possible =
          possible_batches(graph::onnx_overview(bundle_dir / bundle::structure_file).inputs);
    return prove_any(bundle_dir, inputs, **possible, limits);
  };
}

}  // namespace autopar::planner
