#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/error_types.h"

namespace autopar {

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace autopar
