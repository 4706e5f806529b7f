#include "log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "base/default_logger.h"
#include "base/error.h"
#include "base/process_name.h"

namespace autopar {

namespace {

using spdlog::level::level_enum;

constexpr std::array<std::pair<std::string_view, level_enum>, 4> levels = {
    {{"debug", level_enum::debug},
     {"info", level_enum::info},
     {"warning", level_enum::warn},
     {"error", level_enum::err}}};

level_enum level_of(const std::string& text) {
  const auto* const found =
      std::ranges::find(levels, text, &std::pair<std::string_view, level_enum>::first);
  if (found == levels.end()) fail("--log-level {}: give debug, info, warning or error", text);
  return found->second;
}

/// What tell() uses beside the default logger: the same sinks.
std::shared_ptr<spdlog::logger>& reports() {
  static std::shared_ptr<spdlog::logger> logger;
  return logger;
}

/// "warning: "; nothing before a line of a report.
class Label final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    if (message.logger_name == "report") return;
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    line.append(level.begin(), level.end());
    line.append(std::string_view(": "));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Label>();
  }
};

void set_pattern(spdlog::sinks::sink& sink, const std::string& before) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Label>('*').set_pattern(before + "%^%*%$" + process_name() + "%v");
  sink.set_formatter(std::move(formatter));
}

/// Each line is written at once, and no logger holds any back: sinks know which they take.
std::shared_ptr<spdlog::logger> logger_of(const char* name,
                                          const std::vector<spdlog::sink_ptr>& sinks) {
  auto logger = std::make_shared<spdlog::logger>(name, sinks.begin(), sinks.end());
  logger->set_level(level_enum::trace);
  logger->flush_on(level_enum::trace);
  return logger;
}

/// Several ranks may write to one file: each line is added to its end at once.
spdlog::sink_ptr file_sink(const std::filesystem::path& file) {
  if (!std::ofstream(file, std::ios::app))
    fail("--log-file {} cannot be written: {}; choose another place", file.string(),
         std::strerror(errno));
  return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
}

}  // namespace

void LogChoice::add_to(CLI::App& command) {
  constexpr const char* group = "Log";
  command
      .add_option("--log-level", level,
                  "What is told beside results: debug, info, warning or error, and what is worse")
      ->group(group)
      ->default_str("info");
  command
      .add_option("--log-file", file,
                  "Add it to this file, with the time, rather than to standard error, which gets "
                  "errors alone")
      ->group(group);
  command.add_flag("--quiet", quiet, "Tell nothing but errors on standard error")->group(group);
}

void LogChoice::start() const {
  const level_enum chosen = level_of(level);
  std::vector<spdlog::sink_ptr> sinks = {standard_error_sink()};
  if (!file.empty()) sinks.push_back(file_sink(file));
  set_pattern(*sinks.front(), "");
  sinks.front()->set_level(quiet || !file.empty() ? level_enum::err : chosen);
  if (!file.empty()) {
    set_pattern(*sinks.back(), "%Y-%m-%d %H:%M:%S.%e ");
    sinks.back()->set_level(chosen);
  }
  reports() = logger_of("report", sinks);
  spdlog::set_default_logger(logger_of("autopar", sinks));
}

void start_log() { LogChoice().start(); }

void tell(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reports()->info("{}", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool tells_on_standard_error() { return reports()->sinks().front()->should_log(level_enum::info); }

}  // namespace autopar
