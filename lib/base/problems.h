#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace autopar {

/// Collects what is wrong in places that do not depend on each other, so that the first problem
/// does not hide the others.
class Problems {
 public:
  /// Takes the step and keeps the Error that it throws; whether it threw none.
  template <typename Step>
  bool collect(const Step& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      keep(error, std::current_exception());
      return false;
    }
  }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    collect([&] { fail(format, std::forward<Args>(args)...); });
  }

  bool any() const { return !lines_.empty(); }
  /// Throws what was kept: a single Error as it came, several as SeveralErrors.
  void throw_if_any() const;

 private:
  void keep(const Error& error, std::exception_ptr thrown);

  std::vector<std::string> lines_;  ///< no line twice
  std::exception_ptr first_;
};

}  // namespace autopar
