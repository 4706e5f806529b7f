#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace autopar::planner {

/// Calls `make`, which writes JSON. Throws Error where a name out of a file is not UTF-8.
template <typename Make>
auto json_text(const Make& make) {
  try {
    return make();
  } catch (const nlohmann::json::type_error&) {  // what is read is checked elsewhere
    fail("a name in the model, or its file's, is not UTF-8, as JSON needs it; rename it");
  }
}

}  // namespace autopar::planner
