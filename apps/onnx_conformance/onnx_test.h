#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"

namespace autopar::conformance {

using NamedTensor = std::pair<std::string, graph::Tensor>;

/// Values of one run of a test, in the order of the model's inputs and outputs.
struct DataSet {
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> outputs;
};

/// A folder of ONNX's own form: model.onnx, test_data_set_0, ..., and perhaps data.json, which says
/// how far results may be off.
struct OnnxTest {
  std::filesystem::path folder;
  /// The group of a failure in reports: the operator's type, or "several operators".
  std::string operators;
  /// From the fixed list: strings, sequences, optional, training.
  std::optional<std::string> skip_reason;
  std::vector<DataSet> data_sets;  ///< none where it is skipped
  std::size_t odd_input = 0;       ///< the one that was changed, of a test of odd inputs
  bool is_random = false;          ///< only types and shapes of what it expects are compared
  double relative_tolerance = 1e-3;
  double absolute_tolerance = 1e-7;

  std::filesystem::path model() const { return folder / "model.onnx"; }
};

/// Folders with a model.onnx: the given ones and those below them, sorted. Throws Error where there
/// is none.
std::vector<std::filesystem::path> find_tests(const std::vector<std::filesystem::path>& folders);

/// Throws Error for a folder that is not whole.
OnnxTest load_test(const std::filesystem::path& folder);

}  // namespace autopar::conformance
