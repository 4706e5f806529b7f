#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bundle/meta_info.h"
#include "runtime/session_options.h"

namespace autopar::onnx_runtime {

/// What a session's entries tell: the bundle of its shard, and how its rank finds the others.
struct SessionEntries {
  std::filesystem::path bundle;
  runtime::LaunchOptions launch;  ///< without the rank, which the shard tells
  bundle::MetaInfo info;
  /// Worlds of one process that have different names are different ones.
  std::string world;
};

/// An entry of the session's options; none where it was not added.
using EntrySource = std::function<std::optional<std::string>(const std::string& key)>;

/// Reads autopar.bundle, which must be there, autopar.world, autopar.rendezvous,
/// autopar.secret_file, autopar.tls ("1") and autopar.timeout (seconds). Throws Error for what is
/// missing or malformed.
SessionEntries read_entries(const EntrySource& entry);

}  // namespace autopar::onnx_runtime
