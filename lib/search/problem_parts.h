#pragma once

#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::search {

/// Adds a node that counts at times [first, end); `costs` by strategy, empty where all are free.
/// Returns its index.
int add_node(assignment::AssignmentProblem& problem, int first, int end,
             std::vector<std::int64_t> usages, std::vector<assignment::Cost> costs = {});
/// Adds nothing where all costs are 0.
void add_edge(assignment::AssignmentProblem& problem, int a, int b, assignment::CostTable costs);
/// Adds a node for what another one takes, by its strategy, at times [first, end), beside its own
/// usage.
void add_usage(assignment::AssignmentProblem& problem, int node, int first, int end,
               const std::vector<std::int64_t>& bytes);
/// Leaves the node this strategy alone.
void fix(assignment::AssignmentProblem::Node& node, int strategy);

}  // namespace autopar::search
