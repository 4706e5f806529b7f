#include "completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

namespace autopar {

namespace {

/// `text` with each of `special` behind a backslash.
std::string escaped(const std::string& text, const std::string& special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

/// As one word of bash or zsh.
std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// As one word of fish.
std::string quoted_for_fish(const std::string& text) { return "'" + escaped(text, "\\'") + "'"; }

std::string names_of_options(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options)
    if (!option.is_positional())
      names.insert(names.end(), option.names.begin(), option.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

/// Patterns of bash that an option's name behind a command's fits.
std::string bash_patterns(const std::string& command, const OptionText& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(shell_word(command + " " + name));
  return fmt::format("{}", fmt::join(patterns, " | "));
}

/// What bash does where the value of an option is wanted; files are its own default.
std::string bash_values(const OptionText& option) {
  if (!option.choices.empty())
    return fmt::format("words={}", shell_word(fmt::format("{}", fmt::join(option.choices, " "))));
  return option.takes_number() ? "compopt +o default; return" : "return";
}

std::string bash_completion(const CommandText& program) {
  std::string values;
  std::string options;
  std::string commands = names_of_options(program);
  for (const CommandText& command : program.commands) {
    commands += " " + command.name;
    for (const OptionText& option : command.options)
      if (!option.is_positional() && !option.value.empty())
        values += fmt::format("    {}) {} ;;\n", bash_patterns(command.name, option),
                              bash_values(option));
    options +=
        fmt::format("      {}) words={} ;;\n", command.name, shell_word(names_of_options(command)));
  }
  for (const OptionText& option : program.options)  // such an option is in a command's place
    if (!option.value.empty())
      values += fmt::format("    {}) {} ;;\n", bash_patterns(option.names.back(), option),
                            bash_values(option));
  return fmt::format(R"(# bash completion of {0}
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=${{COMP_WORDS[1]}} words=
  if [ "$word" = = ]; then word=; fi
  if [ "$before" = = ]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  if [ "$COMP_CWORD" = 1 ]; then command=; fi
  case "$command $before" in
{1}  esac
  if [ -z "$words" ]; then
    case "$command" in
      '') words={3} ;;
{2}    esac
    if [ -n "$command" ] && [[ $word != -* ]]; then return; fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _{0} {0}
)",
                     program.name, values, options, shell_word(commands));
}

/// What _arguments takes for an option or a positional, one word for each name.
std::vector<std::string> zsh_arguments(const OptionText& option) {
  const std::string described = escaped(option.description, "\\[]:");
  std::string values;
  if (!option.choices.empty())
    values = fmt::format(":{}:({})", option.value, fmt::join(option.choices, " "));
  else if (!option.value.empty())
    values = ":" + option.value + (option.takes_number() ? ":" : ":_files");
  if (option.is_positional())
    return {shell_word(fmt::format("{}:{}:_files", option.repeatable ? "*" : "", described))};
  std::vector<std::string> words;
  for (const std::string& name : option.names)
    words.push_back(shell_word(
        fmt::format("{}{}[{}]{}", option.repeatable ? "*" : "", name, described, values)));
  return words;
}

std::string zsh_arguments(const CommandText& command) {
  std::string words;
  for (const OptionText& option : command.options)
    for (const std::string& word : zsh_arguments(option)) words += " \\\n        " + word;
  return words;
}

std::string zsh_completion(const CommandText& program) {
  std::string commands;
  std::string arguments;
  for (const CommandText& command : program.commands) {
    commands += fmt::format("    {}\n", shell_word(command.name + ":" + command.description));
    arguments += fmt::format("      {}) _arguments{} ;;\n", command.name, zsh_arguments(command));
  }
  return fmt::format(R"(#compdef {0}
_{0}() {{
  local curcontext=$curcontext state line
  local -a commands=(
{1}  )
  _arguments -C{2} \
        '1:command:->command' '*::argument:->arguments'
  case $state in
    command) _describe command commands ;;
    arguments) case $words[1] in
{3}    esac ;;
  esac
}}
if [ "$funcstack[1]" = _{0} ]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     program.name, commands, zsh_arguments(program), arguments);
}

/// The words of an option behind `complete -c autopar -n ...`.
std::string fish_option(const OptionText& option) {
  std::string words;
  for (const std::string& name : option.names)
    words += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.choices.empty())
    words += fmt::format(" -x -a {}",
                         quoted_for_fish(fmt::format("{}", fmt::join(option.choices, " "))));
  else if (!option.value.empty())
    words += option.takes_number() ? " -x" : " -r";
  return words + " -d " + quoted_for_fish(option.description);
}

std::string fish_completion(const CommandText& program) {
  std::string lines = fmt::format("# fish completion of {}\n", program.name);
  const auto add = [&](const std::string& condition, const std::string& words) {
    lines +=
        fmt::format("complete -c {} -n {}{}\n", program.name, quoted_for_fish(condition), words);
  };
  const auto add_options = [&](const CommandText& command, const std::string& condition) {
    for (const OptionText& option : command.options)
      if (!option.is_positional()) add(condition, fish_option(option));
  };
  add_options(program, "__fish_use_subcommand");
  for (const CommandText& command : program.commands) {
    add("__fish_use_subcommand",
        fmt::format(" -f -a {} -d {}", command.name, quoted_for_fish(command.description)));
    add_options(command, "__fish_seen_subcommand_from " + command.name);
  }
  return lines;
}

using Writer = std::function<std::string(const CommandText&)>;

const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> writers = {
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  return writers;
}

}  // namespace

std::vector<std::string> completed_shells() {
  std::vector<std::string> shells;
  for (const auto& [shell, writer] : writers()) shells.push_back(shell);
  return shells;
}

std::string completion(const CommandText& program, const std::string& shell) {
  return writers().at(shell)(program);
}

}  // namespace autopar
