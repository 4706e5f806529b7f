#include "graph/onnx/import_limits.h"

#include <charconv>
#include <map>
#include <optional>

#include "base/byte_size.h"
#include "base/checked.h"

namespace autopar::graph {
namespace {

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_count = error == std::errc() && end == text.data() + text.size() && count > 0;
  return is_count ? std::optional(count) : std::nullopt;
}

[[noreturn]] void fail_form(std::string_view text) {
  fail(
      "--limits {}: give nodes=N, rounds=N, outputs=N or constants=SIZE, or several with commas "
      "between, as "
      "in "
      "nodes=1000000,constants=4GiB",
      text);
}

}  // namespace

ImportLimits parse_import_limits(std::string_view text) {
  using Read = std::optional<std::int64_t> (*)(std::string_view);
  struct Entry {
    std::int64_t ImportLimits::*limit;
    Read read;
  };
  static const std::map<std::string_view, Entry> table = {
      {"constants", {&ImportLimits::constants, parse_byte_size}},
      {"nodes", {&ImportLimits::nodes, parse_count}},
      {"outputs", {&ImportLimits::outputs, parse_count}},
      {"rounds", {&ImportLimits::rounds, parse_count}},
  };
  ImportLimits limits;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    const auto entry = table.find(part.substr(0, equals));
    if (equals == std::string_view::npos || entry == table.end()) fail_form(text);
    const auto value = entry->second.read(part.substr(equals + 1));
    if (!value) fail_form(text);
    limits.*(entry->second.limit) = *value;
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return limits;
}

void fail_for_nodes(const std::string& where, const ImportLimits& limits) {
  throw LimitReached(fmt::format(
      "{}: functions, loops and operators' bodies make more than {} nodes of the model: if it is "
      "meant to be so large, give --limits nodes={}",
      where, limits.nodes, saturated_add(limits.nodes, limits.nodes)));
}

void ImportBudget::fail_rounds(const std::string& where) const {
  throw LimitReached(
      fmt::format("{}: the model's loops make more than {} rounds altogether when it is read: if "
                  "they are meant to, give --limits rounds={}",
                  where, limits_.rounds, saturated_add(limits_.rounds, limits_.rounds)));
}

void ImportBudget::fail_outputs(std::int64_t outputs, const std::string& where) const {
  throw LimitReached(fmt::format(
      "{}: it has {} outputs, where {} are the limit, since a search takes memory with their "
      "square: if that is meant, give --limits outputs={}",
      where, outputs, limits_.outputs, outputs));
}

void ImportBudget::fail_constants(std::int64_t bytes, const std::string& where) const {
  throw LimitReached(fmt::format(
      "{}: a constant of {} bytes would be made of it, beside {} bytes of others, where {} are "
      "the limit: if the model is meant to need them, give --limits constants=SIZE",
      where, bytes, constant_bytes_, limits_.constants));
}

}  // namespace autopar::graph
