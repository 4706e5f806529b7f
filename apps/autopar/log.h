#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>

namespace autopar {

/// The options of all commands that say how much a person is told beside results, and where.
struct LogChoice {
  std::string level = "info";
  std::filesystem::path file;
  bool quiet = false;

  void add_to(CLI::App& command);
  /// The log is as chosen from here on; each line has process_name(). Throws Error for a level that
  /// is none and a file that cannot be written.
  void start() const;
};

/// Until the options are known.
void start_log();

/// Tells a person what a command has done, line by line, as the log does but with no level before.
void tell(std::string_view text);

/// Whether standard error has more than errors.
bool tells_on_standard_error();

}  // namespace autopar
