#include "operator_options.h"

#include <string>
#include <vector>

#include "planner/planner.h"

namespace autopar {

void add_operators_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--operators",
          [](const std::vector<std::string>& libraries) {
            for (const std::string& library : libraries) planner::load_operators(library);
          },
          "A shared library with operators of your own (autopar_operator.h); may be repeated")
      ->allow_extra_args(false);
}

}  // namespace autopar
