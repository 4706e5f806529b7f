#pragma once

#include <exception>
#include <mutex>
#include <utility>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// The first error of several threads that is a cause, not another one's consequence.
class FirstError {
 public:
  /// The exception that is being handled.
  void store() {
    const std::lock_guard lock(mutex_);
    try {
      throw;
    } catch (const GivenUp&) {
      if (!consequence_) consequence_ = std::current_exception();
    } catch (...) {
      if (!cause_) cause_ = std::current_exception();
    }
  }
  /// Only when no thread stores any more; none is left behind.
  void rethrow() {
    if (!cause_) cause_ = std::exchange(consequence_, nullptr);
    if (cause_) std::rethrow_exception(std::exchange(cause_, nullptr));
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
};

}  // namespace autopar::runtime
