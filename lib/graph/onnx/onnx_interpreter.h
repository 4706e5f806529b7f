#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

class ModelFile;

/// Computes a model node by node, as constants are folded: each node's shapes are inferred when its
/// inputs are there, so that they may depend on values, and loops and conditions are followed as
/// they come.
class OnnxInterpreter {
 public:
  /// Reads the file, once for all runs. `evaluate` throws Error for a node that it cannot compute;
  /// nodes that are not native are taken apart, as when a model is imported.
  OnnxInterpreter(const std::filesystem::path& file, Evaluator evaluate, IsNative is_native);
  ~OnnxInterpreter();

  /// The model's outputs by name, of all its inputs. Throws Error naming the node that fails.
  std::map<std::string, Tensor> run(std::map<std::string, Tensor> inputs) const;

 private:
  ImportOptions options_;
  std::unique_ptr<ModelFile> file_;
};

}  // namespace autopar::graph
