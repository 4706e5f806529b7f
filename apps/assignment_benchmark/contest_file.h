#pragma once

#include <string>

#include "assignment/assignment_problem.h"

namespace autopar {

/// Reads an instance of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism
/// (github.com/google/iopddl): JSON, gzipped or not. Throws Error where it cannot.
assignment::AssignmentProblem read_contest_file(const std::string& path);

}  // namespace autopar
