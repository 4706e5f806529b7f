#pragma once

#include <filesystem>
#include <optional>

#include "runtime/session.h"

namespace autopar::serving {

/// A session for requests of strangers. A value that only a run finds to be wrong, such as an index
/// out of range, ends a session; where this process has all its ranks, another one is opened then,
/// so that this, too, is one request's error.
class LastingSession {
 public:
  /// Throws as Session does. Nothing is loaded yet.
  LastingSession(std::filesystem::path bundle_dir, runtime::SessionOptions options);

  /// The session as it is now; leading it is for lead().
  runtime::Session& get() { return *session_; }
  const runtime::Session& get() const { return *session_; }

  /// As Session::lead. Where it throws and is_over() is false, the next one can be led.
  runtime::RunResult lead(const runtime::NamedTensors& inputs);
  /// Whether the last lead() has failed in its run, which was not a refusal.
  bool has_failed() const { return has_failed_; }
  bool is_over() const { return !session_ || session_->is_over(); }

 private:
  std::filesystem::path dir_;
  runtime::SessionOptions options_;
  std::optional<runtime::Session> session_;
  bool has_failed_ = false;
};

}  // namespace autopar::serving
