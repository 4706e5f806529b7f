#include "planner/profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/problems.h"

namespace autopar::planner {

namespace {

/// Costs are whole picoseconds and their sums have 64 bits.
constexpr double least_weight = 1e-3;
constexpr double most_weight = 1e5;

/// A binding and its values, one for all profiles or one for each.
struct Binding {
  std::string text;  ///< as it was given
  std::string name;
  std::vector<std::string> values;

  std::string with_value(std::size_t profile) const {
    return fmt::format("{}={}", name, values[values.size() == 1 ? 0 : profile]);
  }
};

/// What is no binding is left for whoever reads it.
Binding parse(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) return {text, text, {""}};
  Binding binding{text, text.substr(0, equals), {}};
  for (std::size_t at = equals + 1; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    binding.values.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return binding;
}

std::size_t count_of(const std::vector<Binding>& bindings) {
  const Binding* longest = nullptr;
  for (const Binding& each : bindings) {
    if (each.values.size() == 1) continue;
    if (longest && longest->values.size() != each.values.size())
      fail(
          "--shape {} has {} values and --shape {} has {}: lists go together, a value for each "
          "profile",
          longest->text, longest->values.size(), each.text, each.values.size());
    longest = &each;
  }
  return longest ? longest->values.size() : 1;
}

void check_weights(const std::vector<double>& weights, std::size_t profiles) {
  if (weights.empty()) return;
  if (weights.size() != profiles)
    fail(
        "--profile-weights {}: {} for {}; give one for each profile, in the order of --shape's "
        "lists",
        fmt::join(weights, ","), weights.size(),
        profiles == 1 ? "one profile" : fmt::format("{} profiles", profiles));
  const auto is_wrong = [](double weight) {
    return !(weight >= least_weight && weight <= most_weight);
  };
  if (std::ranges::any_of(weights, is_wrong))
    fail(
        "--profile-weights {}: give numbers from {} to {}; leave a profile out that is of no "
        "weight",
        fmt::join(weights, ","), least_weight, most_weight);
}

void check_differ(const std::vector<ProfileOptions>& profiles) {
  std::set<std::string> known;
  for (const ProfileOptions& each : profiles)
    if (!known.insert(each.binding).second)
      fail("--shape: two profiles have {}; leave one out", each.binding);
}

}  // namespace

std::vector<ProfileOptions> profiles_of(const ModelOptions& options) {
  std::vector<Binding> bindings;
  for (const std::string& text : options.shapes) bindings.push_back(parse(text));
  const std::size_t count = count_of(bindings);
  std::vector<ProfileOptions> profiles(count);
  for (std::size_t p = 0; p < count; ++p) {
    std::vector<std::string> own;
    for (const Binding& each : bindings) {
      if (count > 1 && each.values.size() > 1) own.push_back(each.with_value(p));
      profiles[p].shapes.push_back(count > 1 ? each.with_value(p) : each.text);
    }
    profiles[p].binding = fmt::format("{}", fmt::join(own, ", "));
  }
  Problems problems;
  if (count > 1) problems.collect([&] { check_differ(profiles); });
  problems.collect([&] { check_weights(options.profile_weights, count); });
  problems.throw_if_any();
  for (std::size_t p = 0; p < options.profile_weights.size(); ++p)
    profiles[p].weight = options.profile_weights[p];
  return profiles;
}

}  // namespace autopar::planner
