#pragma once

#include <spdlog/sinks/sink.h>

#include <memory>

namespace autopar {

/// Standard error, in colour where it is a terminal and NO_COLOR is not set.
std::shared_ptr<spdlog::sinks::sink> standard_error_sink();

}  // namespace autopar
