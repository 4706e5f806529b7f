#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace autopar {
namespace {

/// Standard output is a program's own: where it has chosen no logger, warnings go to standard
/// error. A program that chooses one later replaces this one as it would spdlog's.
[[maybe_unused]] const bool is_on_standard_error = [] {
  const auto& sinks = spdlog::default_logger()->sinks();
  if (sinks.size() == 1 &&
      dynamic_cast<spdlog::sinks::stdout_color_sink_mt*>(sinks.front().get()) != nullptr)
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  return true;
}();

}  // namespace
}  // namespace autopar
