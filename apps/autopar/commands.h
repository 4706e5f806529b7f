#pragma once

#include <CLI/CLI.hpp>

namespace autopar {

/// Each subcommand adds itself and its options to the application; parsing runs it.
void add_partition_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);

/// Options that print the application's texts for shells and man. Parsing tells of all that the
/// application has by then.
void add_printed_texts(CLI::App& app);

}  // namespace autopar
