#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/import_limits.h"

namespace autopar::graph {

/// Some shape, or how often something is done, depends on values that are known in a run alone.
struct UnknownShape : Error {
  using Error::Error;
};

/// Shapes of inputs, by name or a glob over names, and extents of symbols as shapes of one
/// dimension; from `--shape input=1x128`, `--shape 'past.*=1x8x2048x64'`, `--shape batch=1`.
using ShapeBindings = std::map<std::string, Shape>;

/// Reads "NAME=1x128" or "NAME=128"; throws Error that shows the form.
std::pair<std::string, Shape> parse_shape_binding(std::string_view text);

/// Evaluates a graph of one node whose inputs are all constants; nullopt where no kernel serves
/// it. The one call against the modules' order: folding needs kernels, which this module may not
/// know, so the application hands them in. Of Compress, NonMaxSuppression, NonZero and Unique the
/// results' shapes are the evaluator's.
using Evaluator = std::function<std::optional<std::vector<Tensor>>(const Graph& single_node)>;

/// Whether an operator is to stay as it is.
using IsNative = std::function<bool(std::string_view domain, std::string_view op_type)>;

/// The extent of a symbolic dimension of which the options say nothing.
struct Assumption {
  std::string name;  ///< the symbol, or "dimension 1 of 'x'" where it has none
  bool is_batch = false;
  std::int64_t extent = 0;
  std::string formula{};  ///< "past + new", of other symbols, where the model's nodes want that
  bool is_unnamed = false;

  bool operator==(const Assumption&) const = default;
};
using Assumptions = std::vector<Assumption>;

struct ImportOptions {
  ShapeBindings shapes;  ///< what they leave open is assumed
  /// Where it is empty, only what ONNX's own data propagation covers is folded.
  Evaluator evaluate;
  /// Operators that stay as they are though ONNX defines them as functions; others are inlined.
  /// Where it is empty, all stay. The collectives are native always.
  IsNative is_native;
  /// `autopar plan` needs no weights: a missing external file is then no error.
  bool weights_may_be_absent = false;
  /// Values of model inputs by name, from `--constant`: the graph has constants in their place.
  std::map<std::string, Tensor> constants = {};
  /// Patterns of states, from `--loop`, whose names are checked with those of the other options.
  std::vector<std::string> loops = {};
  /// Whether loops of a known number of rounds are unrolled. A shard has those alone that are to be
  /// run as they are.
  bool unrolls = true;
  /// Whether `shapes` are those of tensors that somebody gives for a run: then messages speak of
  /// inputs, not of options, and warn of one thing once, whatever its extents are.
  bool shapes_are_of_tensors = false;
  ImportLimits limits = {};
};

/// Reads an ONNX file into a Graph. Weights, embedded or external, stay views of the mapped files
/// and are never copied; ONNX does not align embedded ones, so a large one may not be aligned
/// (`Tensor::is_aligned`). Nodes whose inputs are all constant are folded unless the result is
/// large or an input is a matrix of floating-point numbers from the file: such stay nodes, so that
/// ties between weights survive. Throws UnknownShape, or Error for anything else that is wrong with
/// the file or the options; what does not depend on each other is told together. Throws
/// LimitReached where the model would grow beyond ImportOptions::limits.
Graph load_onnx(const std::filesystem::path& file, const ImportOptions& options);

/// Throws the Error that load_onnx would throw for names and shapes in the options, reading nothing
/// else of the model.
void check_import_options(const std::filesystem::path& file, const ImportOptions& options);

}  // namespace autopar::graph
