#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

namespace autopar {

/// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> files;  ///< NAME=FILE.npy or NAME=FILE.pb
  std::optional<std::uint64_t> random_seed;
  void add_to(CLI::App& command);

  /// A tensor for every model input: from its file, else random where a seed is given. Throws
  /// Error where that leaves an input without a tensor, or a file does not fit its input; states of
  /// a loop may be left out.
  runtime::NamedTensors load(const bundle::MetaInfo& info,
                             const runtime::LoopOptions& loop = {}) const;
};

/// What the shapes that a session keeps may take.
void add_shape_cache_option(CLI::App& command, std::int64_t& bytes);

/// Throws Error for a count below 0; 0 is a fair share.
void check_threads(int threads);

}  // namespace autopar
