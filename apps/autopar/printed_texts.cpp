#include "command_texts.h"
#include "commands.h"
#include "completion.h"
#include "manual.h"

namespace autopar {

namespace {

/// Has the parser print a text and end the program well, as it does with a version.
[[noreturn]] void print_and_end(const std::string& text) { throw CLI::CallForVersion(text, 0); }

}  // namespace

void add_printed_texts(CLI::App& app) {
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string& shell) { print_and_end(completion(command_text(app), shell)); },
         "Print a script that completes commands and options in this shell")
      ->check(CLI::IsMember(completed_shells()))
      ->trigger_on_parse();
  app.add_flag_callback(
         "--manual", [&app] { print_and_end(manual(command_text(app), AUTOPAR_VERSION)); },
         "Print the manual page, for man")
      ->trigger_on_parse();
}

}  // namespace autopar
