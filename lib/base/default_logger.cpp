#include "base/default_logger.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace autopar {
namespace {

/// As no-color.org has it.
spdlog::color_mode color_mode() {
  const char* const no_color = std::getenv("NO_COLOR");
  const bool is_set = no_color != nullptr && *no_color != 0;
  return is_set ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

/// Standard output is a program's own: where it has chosen no logger, warnings go to standard
/// error. A program that chooses one later replaces this one as it would spdlog's.
[[maybe_unused]] const bool is_on_standard_error = [] {
  const auto& sinks = spdlog::default_logger()->sinks();
  if (sinks.size() == 1 &&
      dynamic_cast<spdlog::sinks::stdout_color_sink_mt*>(sinks.front().get()) != nullptr)
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", standard_error_sink()));
  return true;
}();

}  // namespace

std::shared_ptr<spdlog::sinks::sink> standard_error_sink() {
  return std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color_mode());
}

}  // namespace autopar
