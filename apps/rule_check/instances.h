#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace autopar::rule_check {

/// Instances of every operator in the rule table, in Instance's form: several a rule, so that every
/// branch of it is taken, with extents that no mesh divides all.
std::vector<std::string_view> instances();

/// Why the rule of an operator lacks a split that running it finds.
struct Reason {
  std::string_view op_type;  ///< qualified
  std::string_view split;    ///< as rule_check prints it; empty for every split of the operator
  std::string_view reason;
};
std::span<const Reason> reasons();

}  // namespace autopar::rule_check
