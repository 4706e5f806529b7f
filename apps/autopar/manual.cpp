#include "manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <vector>

namespace autopar {

namespace {

/// Text as roff shows it: a dash is a minus, and no line begins with a request.
std::string shown(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string value_of(const OptionText& option) {
  if (option.choices.empty()) return option.value;
  return fmt::format("{}", fmt::join(option.choices, "|"));
}

/// "--search ilp|propagation, default ilp"
std::string heading(const OptionText& option) {
  if (option.is_positional()) return fmt::format("\\fI{}\\fR", shown(upper(option.names.front())));
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + shown(name) + "\\fR");
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!option.value.empty()) text += fmt::format(" \\fI{}\\fR", shown(value_of(option)));
  if (!option.value.empty() && !option.usual.empty())
    text += fmt::format(" (default: {})", shown(option.usual));
  if (option.required) text += " (required)";
  return text;
}

std::string options_of(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options)
    text += fmt::format(".TP\n{}\n{}.\n", heading(option), shown(option.description));
  return text;
}

std::string synopsis(const CommandText& program, const CommandText& command) {
  std::string text = fmt::format("\\fB{} {}\\fR", shown(program.name), shown(command.name));
  for (const OptionText& option : command.options)
    if (option.is_positional()) text += " " + heading(option);
  return text + " [\\fIOPTIONS\\fR]";
}

}  // namespace

std::string manual(const CommandText& program, const std::string& version) {
  const std::string& described = program.description;
  const std::string prefix = program.name + ": ";
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
      upper(program.name), program.name, version, program.name,
      shown(described.starts_with(prefix) ? described.substr(prefix.size()) : described));
  std::vector<std::string> lines;
  for (const CommandText& command : program.commands) lines.push_back(synopsis(program, command));
  page += fmt::format("{}\n", fmt::join(lines, "\n.br\n"));
  page += ".SH OPTIONS\n" + options_of(program) + ".SH COMMANDS\n";
  for (const CommandText& command : program.commands)
    page += fmt::format(".SS {}\n{}.\n{}", synopsis(program, command), shown(command.description),
                        options_of(command));
  return page;
}

}  // namespace autopar
