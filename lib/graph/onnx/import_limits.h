#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace autopar::graph {

/// What a model may take while it is read: a small file may ask for any amount. Nodes that the file
/// itself has are not counted, since they grow with the file. `--limits` sets them.
struct ImportLimits {
  /// Nodes that come of functions, of graphs within nodes and of operators' own bodies, each time
  /// that they are read.
  std::int64_t nodes = 200'000;
  /// Rounds of loops that are read one after the other, of all loops together.
  std::int64_t rounds = 100'000;
  /// Outputs of one node, in the file's own graph, too: what a search compares grows with their
  /// square.
  std::int64_t outputs = 1024;
  /// Bytes of constants that reading makes: folded ones, and what operators' bodies have.
  std::int64_t constants = std::int64_t{1} << 30;
};

inline constexpr ImportLimits unlimited_import{
    .nodes = std::numeric_limits<std::int64_t>::max(),
    .rounds = std::numeric_limits<std::int64_t>::max(),
    .outputs = std::numeric_limits<std::int64_t>::max(),
    .constants = std::numeric_limits<std::int64_t>::max()};

/// Those of a shard: what a partition writes is flat and folded, so that reading it makes next to
/// nothing, whatever the model was allowed. Only the nodes that the file itself has may have many
/// outputs.
inline constexpr ImportLimits shard_limits{.outputs = std::numeric_limits<std::int64_t>::max()};

/// Reads "nodes=1000000,rounds=200000,outputs=5000,constants=4GiB"; what it leaves out is as by
/// default, all where it is empty. Throws Error that shows the form.
ImportLimits parse_import_limits(std::string_view text);

/// A limit is reached. Nothing else is tried then: other ways to read the model would reach it,
/// too.
struct LimitReached : Error {
  using Error::Error;
};

[[noreturn]] void fail_for_nodes(const std::string& where, const ImportLimits& limits);

/// Counts what reading one model takes. Each function throws LimitReached, which says where, which
/// limit, and how to raise it.
class ImportBudget {
 public:
  explicit ImportBudget(const ImportLimits& limits) : limits_(limits) {}

  /// `where`, as in "model.onnx: node 'x' (If)", is called when the limit is reached.
  template <typename Where>
  void take_node(const Where& where) {
    if (++nodes_ > limits_.nodes) fail_for_nodes(where(), limits_);
  }
  template <typename Where>
  void take_round(const Where& where) {
    if (++rounds_ > limits_.rounds) fail_rounds(where());
  }
  template <typename Where>
  void check_outputs(std::int64_t outputs, const Where& where) const {
    if (outputs > limits_.outputs) fail_outputs(outputs, where());
  }
  template <typename Where>
  void take_constant(std::int64_t bytes, const Where& where) {
    if (bytes > limits_.constants - constant_bytes_) fail_constants(bytes, where());
    constant_bytes_ += bytes;
  }

 private:
  [[noreturn]] void fail_rounds(const std::string& where) const;
  [[noreturn]] void fail_outputs(std::int64_t outputs, const std::string& where) const;
  [[noreturn]] void fail_constants(std::int64_t bytes, const std::string& where) const;

  ImportLimits limits_;
  std::int64_t nodes_ = 0;
  std::int64_t rounds_ = 0;
  std::int64_t constant_bytes_ = 0;
};

}  // namespace autopar::graph
