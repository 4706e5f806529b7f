#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace autopar {

/// An option, or a positional argument, as `--help` tells it.
struct OptionText {
  std::vector<std::string> names;    ///< "-h", "--help"; one without dashes of a positional
  std::string value;                 ///< "TEXT", "INT", ...; empty for a flag
  std::vector<std::string> choices;  ///< all values that it takes, where these are few
  std::string usual;                 ///< its value by default, as text; or empty
  std::string description;
  bool required = false;
  bool repeatable = false;

  bool is_positional() const { return !names.front().starts_with('-'); }
  bool takes_number() const { return value == "INT" || value == "UINT" || value == "FLOAT"; }
};

struct CommandText {
  std::string name;
  std::string description;
  std::vector<OptionText> options{};    ///< in the order of `--help`
  std::vector<CommandText> commands{};  ///< of the program alone
};

/// The texts of an app and its subcommands; what is hidden in `--help` is left out.
CommandText command_text(const CLI::App& app);

}  // namespace autopar
