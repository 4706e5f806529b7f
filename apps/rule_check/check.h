#pragma once

#include <string>
#include <vector>

#include "instance.h"

namespace autopar::rule_check {

/// A split that running finds and the rule lacks.
struct Missed {
  std::string split;
  std::string reason;  ///< empty for none
};

struct Findings {
  std::string unchecked;           ///< why the instance was not run; empty where it was
  std::vector<std::string> wrong;  ///< choices that the rule allows and running disproves
  std::vector<Missed> missed;
};

/// Runs all that the operator's rule allows on meshes of 2, 3, 4 and 2x2, and compares the rule
/// with what discovery finds.
Findings check(const Instance& instance, const sharding::ShardRunner& runner);

}  // namespace autopar::rule_check
