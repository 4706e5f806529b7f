#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace autopar {

/// Bad input. The message is one line: what is wrong, where (file, node, option), what to do.
/// Thrown where the fact is known, printed once, in main, which then exits with 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Several problems that have nothing to do with each other, a line for each; what() has them all.
class SeveralErrors : public Error {
 public:
  explicit SeveralErrors(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// A broken invariant of autopar itself, never the user's fault.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Checks an invariant of ours; bad input goes to `fail` (error.h) instead.
inline void require(bool holds, const char* invariant) {
  if (!holds) throw InternalError(std::string("internal error: ") + invariant);
}

}  // namespace autopar
