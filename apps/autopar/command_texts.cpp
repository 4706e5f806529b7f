#include "command_texts.h"

#include <sstream>

namespace autopar {

namespace {

/// CLI11 has a type and what checks it in one text, "TEXT:{ilp,propagation}".
std::vector<std::string> choices_of(const std::string& type) {
  const auto begin = type.find(":{");
  std::vector<std::string> choices;
  if (begin == std::string::npos) return choices;
  std::istringstream list(type.substr(begin + 2, type.find('}', begin) - begin - 2));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

OptionText option_text(const CLI::Option& option) {
  const bool is_flag = option.get_items_expected_max() == 0;
  const std::string type = is_flag ? "" : option.get_type_name();
  return {.names = names_of(option),
          .value = type.substr(0, type.find(':')),
          .choices = choices_of(type),
          .usual = option.get_default_str(),
          .description = option.get_description(),
          .required = option.get_required(),
          .repeatable = option.get_expected_max() >= CLI::detail::expected_max_vector_size};
}

}  // namespace

CommandText command_text(const CLI::App& app) {
  CommandText text{.name = app.get_name(), .description = app.get_description()};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) text.options.push_back(option_text(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) text.commands.push_back(command_text(*command));
  return text;
}

}  // namespace autopar
