#include "assignment/parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"

namespace autopar::assignment {

namespace {

constexpr std::size_t most_names_alike = 3;

/// Calls visitor(GROUP.NAME, value, range, meaning) for all parameters.
template <typename Visitor>
void visit_all(SolverParameters& parameters, const Visitor& visitor) {
  parameters.visit_groups([&](std::string_view group_name, auto& group) {
    group.visit(
        [&](std::string_view name, auto& value, ParameterRange range, std::string_view meaning) {
          visitor(fmt::format("{}.{}", group_name, name), value, range, meaning);
        });
  });
}

std::vector<std::string> names_like(SolverParameters& parameters, std::string_view wanted) {
  std::vector<std::pair<std::size_t, std::string>> names;
  visit_all(parameters, [&](const std::string& name, auto&, ParameterRange, std::string_view) {
    // A name may lack its group.
    const std::string_view own = std::string_view(name).substr(name.find('.') + 1);
    names.emplace_back(std::min(edit_distance(wanted, name), edit_distance(wanted, own)), name);
  });
  std::ranges::stable_sort(names, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> nearest;
  for (std::size_t k = 0; k < most_names_alike; ++k) nearest.push_back(names[k].second);
  return nearest;
}

template <typename Number>
void parse_value(std::string_view name, std::string_view text, ParameterRange range,
                 Number& value) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(number);
  const bool is_of_type = !std::is_integral_v<Number> || std::trunc(number) == number;
  if (!is_number || !is_of_type || number < range.least || number > range.most) {
    fail("--parameter {}={}: give {} from {:g} to {:g}", name, text,
         std::is_integral_v<Number> ? "a whole number" : "a number", range.least, range.most);
  }
  value = static_cast<Number>(number);
}

}  // namespace

std::vector<ParameterText> parameter_texts(SolverParameters parameters) {
  std::vector<ParameterText> texts;
  visit_all(parameters, [&](const std::string& name, const auto& value, ParameterRange,
                            std::string_view meaning) {
    texts.push_back({name, fmt::format("{}", value), meaning});
  });
  return texts;
}

void set_parameter(SolverParameters& parameters, std::string_view assignment) {
  const std::size_t sign = assignment.find('=');
  if (sign == std::string_view::npos) {
    fail("--parameter {}: give NAME=VALUE; --parameters lists all names", assignment);
  }
  const std::string_view wanted = assignment.substr(0, sign);
  bool is_known = false;
  visit_all(parameters,
            [&](const std::string& name, auto& value, ParameterRange range, std::string_view) {
              if (name != wanted) return;
              is_known = true;
              parse_value(name, assignment.substr(sign + 1), range, value);
            });
  if (!is_known) {
    fail("--parameter {}: there is no parameter '{}'; names like it: {}", assignment, wanted,
         fmt::join(names_like(parameters, wanted), ", "));
  }
}

}  // namespace autopar::assignment
