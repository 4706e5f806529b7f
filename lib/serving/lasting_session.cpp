#include "serving/lasting_session.h"

#include <exception>
#include <utility>

#include "base/error.h"

namespace autopar::serving {

LastingSession::LastingSession(std::filesystem::path bundle_dir, runtime::SessionOptions options)
    : dir_(std::move(bundle_dir)),
      options_(std::move(options)),
      session_(std::in_place, dir_, options_) {}

runtime::RunResult LastingSession::lead(const runtime::NamedTensors& inputs) {
  has_failed_ = false;
  try {
    return session_->lead(inputs);
  } catch (const Error&) {
    has_failed_ = session_->is_over();
    if (!has_failed_ || !session_->has_all_ranks()) throw;
    session_.reset();  // before another one takes memory
    session_.emplace(dir_, options_);
    session_->load();
    throw;
  }
}

}  // namespace autopar::serving
