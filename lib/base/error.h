#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace autopar {

/// Bad input. The message is one line: what is wrong, where (file, node, option), what to do.
/// Thrown where the fact is known, printed once, in main, which then exits with 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant of autopar itself, never the user's fault.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Checks an invariant of ours; bad input goes to `fail` instead.
inline void require(bool holds, const char* invariant) {
  if (!holds) throw InternalError(std::string("internal error: ") + invariant);
}

}  // namespace autopar
