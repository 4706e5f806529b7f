#pragma once

#include <CLI/CLI.hpp>

namespace autopar {

/// --operators, whose libraries are loaded when the command line is read.
void add_operators_option(CLI::App& command);

}  // namespace autopar
