#pragma once

#include <CLI/CLI.hpp>

#include "planner/planner.h"

namespace autopar {

void add_model_options(CLI::App& command, planner::ModelOptions& options);
/// --limits, of commands that read a model.
void add_limits_option(CLI::App& command, std::string& limits);
void add_plan_options(CLI::App& command, planner::PlanOptions& options);
/// --operators, whose libraries are loaded when the command line is read.
void add_operators_option(CLI::App& command);
/// --report, and --measured, which needs it.
void add_report_options(CLI::App& command, planner::ReportOptions& options);
/// Options that contradict each other are wrong usage. Throws CLI::ValidationError.
void check_usage(const planner::PlanOptions& options);

}  // namespace autopar
