#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::assignment {

/// All numbers that tune the solver, by phase: `relaxation.least_gain` and so on, as parameters.def
/// lists them with their defaults and meanings.
struct SolverParameters {
#define GROUP(Type, name) struct Type {
#define PARAMETER(type, name, value, range, meaning) type name = value;
#define END(Type, name) \
  }                     \
  ;                     \
  Type name;
#include "assignment/parameters.def"
};

/// A parameter as text.
struct ParameterText {
  std::string name;  ///< GROUP.NAME
  std::string value;
  std::string_view meaning;
};

/// All of them, group by group.
std::vector<ParameterText> parameter_texts(SolverParameters parameters);

/// Sets one from `GROUP.NAME=VALUE`. Throws Error where there is no such parameter, naming those
/// whose names are most alike, or where the value is no number in its range.
void set_parameter(SolverParameters& parameters, std::string_view assignment);

}  // namespace autopar::assignment
