#include "assignment/parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <variant>

#include "base/error.h"
#include "base/text.h"

namespace autopar::assignment {

namespace {

constexpr std::size_t most_names_alike = 3;

/// The values that a parameter may take, both ends included.
struct Range {
  double least = 0;
  double most = 0;
};
constexpr Range any_amount{0, 1e18};
constexpr Range any_count{0, 1e9};
constexpr Range at_least_one{1, 1e9};
constexpr Range positive{1e-12, 1e18};
constexpr Range part{0, 1};
constexpr Range coarse_part{0.01, 1};
constexpr Range positive_part{1e-6, 1};
constexpr Range shrinking{0.01, 0.99};
constexpr Range growing{1, 1e6};
constexpr Range multiplying{2, 1e6};

struct Parameter {
  std::string name;  ///< GROUP.NAME
  std::variant<int*, std::size_t*, double*> value;
  Range range;
  std::string_view meaning;
};

std::vector<Parameter> all_parameters(SolverParameters& parameters) {
  std::vector<Parameter> all;
#define GROUP(Type, name)          \
  {                                \
    auto& group = parameters.name; \
    const std::string prefix = #name ".";
#define PARAMETER(type, name, value, range, meaning) \
  all.push_back({prefix + #name, &group.name, range, meaning});
#define END(Type, name) }
#include "assignment/parameters.def"
  return all;
}

std::vector<std::string> names_like(const std::vector<Parameter>& parameters,
                                    std::string_view wanted) {
  std::vector<std::pair<std::size_t, std::string>> names;
  for (const auto& [name, value, range, meaning] : parameters) {
    // A name may lack its group.
    const std::string_view own = std::string_view(name).substr(name.find('.') + 1);
    names.emplace_back(std::min(edit_distance(wanted, name), edit_distance(wanted, own)), name);
  }
  std::ranges::stable_sort(names, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> nearest;
  for (std::size_t k = 0; k < most_names_alike; ++k) nearest.push_back(names[k].second);
  return nearest;
}

template <typename Number>
void parse_value(const Parameter& parameter, std::string_view text, Number& value) {
  double number = 0;
  const auto& [least, most] = parameter.range;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(number);
  const bool is_of_type = !std::is_integral_v<Number> || std::trunc(number) == number;
  if (!is_number || !is_of_type || number < least || number > most) {
    fail("--parameter {}={}: give {} from {:g} to {:g}", parameter.name, text,
         std::is_integral_v<Number> ? "a whole number" : "a number", least, most);
  }
  value = static_cast<Number>(number);
}

}  // namespace

std::vector<ParameterText> parameter_texts(SolverParameters parameters) {
  std::vector<ParameterText> texts;
  for (const auto& [name, value, range, meaning] : all_parameters(parameters)) {
    const auto as_text = [](const auto* number) { return fmt::format("{}", *number); };
    texts.push_back({name, std::visit(as_text, value), meaning});
  }
  return texts;
}

void set_parameter(SolverParameters& parameters, std::string_view assignment) {
  const std::size_t sign = assignment.find('=');
  if (sign == std::string_view::npos) {
    fail("--parameter {}: give NAME=VALUE; --parameters lists all names", assignment);
  }
  const std::string_view wanted = assignment.substr(0, sign);
  const auto all = all_parameters(parameters);
  const auto known = std::ranges::find(all, wanted, &Parameter::name);
  if (known == all.end()) {
    fail("--parameter {}: there is no parameter '{}'; names like it: {}", assignment, wanted,
         fmt::join(names_like(all, wanted), ", "));
  }
  std::visit([&](auto* value) { parse_value(*known, assignment.substr(sign + 1), *value); },
             known->value);
}

}  // namespace autopar::assignment
