#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/data_type.h"

namespace autopar::graph {

/// What an ONNX file says of itself, before any binding, inference or folding.
struct ModelOverview {
  struct Port {
    std::string name;
    DataType type = DataType::undefined;
    std::vector<std::string> dims;  ///< a number, a symbol, or "?"
  };
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;
  std::vector<Port> inputs;  ///< without the weights that older files also list as inputs
  std::vector<Port> outputs;
  std::map<std::string, int>
      operators;  ///< count by qualified operator type, functions not inlined
  std::int64_t weights = 0;
  std::int64_t weight_bytes = 0;
};

/// Whether an extent in `dims` is none that is fixed.
bool is_open(const std::string& dim);

/// Reads only structure: weights need not be present. Throws Error where it is no ONNX file.
ModelOverview onnx_overview(const std::filesystem::path& file);

/// What the file calls its nodes, those without a name by their operator, and its values. Names of
/// what comes from inside of nodes begin with these.
std::vector<std::string> names_in_onnx(const std::filesystem::path& file);

}  // namespace autopar::graph
