#include "bundle_edits.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace autopar::fuzz {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

struct Place {
  Pointer at;
  const json* value = nullptr;
};

void append_places(const json& value, const Pointer& at, std::vector<Place>& places) {
  if (!at.empty()) places.push_back({at, &value});
  if (value.is_object())
    for (const auto& [name, inner] : value.items()) append_places(inner, at / name, places);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) append_places(value[i], at / i, places);
}

class Editor {
 public:
  Editor(const json& document, std::mt19937& random) : random_(random) {
    append_places(document, Pointer(), places_);
  }

  void add_to(json& patch) {
    const Place& place = any(places_);
    const std::string at = place.at.to_string();
    switch (below(8)) {
      case 0:
        patch.push_back({{"op", "remove"}, {"path", at}});
        return;
      case 1:
        patch.push_back({{"op", "copy"}, {"from", any(places_).at.to_string()}, {"path", at}});
        return;
      case 2:
        return exchange(patch, place);
      case 3:
        return replace_all(patch, place);
      case 4:
        return append_item(patch, place);
      default:
        patch.push_back({{"op", "replace"}, {"path", at}, {"value", other(*place.value)}});
    }
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  template <typename Item>
  const Item& any(const std::vector<Item>& items) {
    return items[below(items.size())];
  }

  /// Two values that stand under one name.
  void exchange(json& patch, const Place& place) {
    std::vector<Place> alike;
    for (const Place& each : places_)
      if (each.at.back() == place.at.back() && each.value->type() == place.value->type())
        alike.push_back(each);
    const Place& partner = any(alike);
    patch.push_back({{"op", "replace"}, {"path", place.at.to_string()}, {"value", *partner.value}});
    patch.push_back({{"op", "replace"}, {"path", partner.at.to_string()}, {"value", *place.value}});
  }

  /// What stands there, wherever it stands: a name, or an extent.
  void replace_all(json& patch, const Place& place) {
    if (place.value->is_structured()) return;
    const json now = other(*place.value);
    for (const Place& each : places_)
      if (*each.value == *place.value)
        patch.push_back({{"op", "replace"}, {"path", each.at.to_string()}, {"value", now}});
  }

  void append_item(json& patch, const Place& place) {
    std::vector<Place> lists;
    for (const Place& each : places_)
      if (each.value->is_array() && !each.value->empty()) lists.push_back(each);
    const Place& list = any(lists);
    const json& item = below(2) == 0 ? (*list.value)[below(list.value->size())] : *place.value;
    patch.push_back({{"op", "add"}, {"path", list.at.to_string() + "/-"}, {"value", item}});
  }

  json other(const json& value) {
    if (below(4) == 0) return *any(places_).value;
    if (value.is_number()) return number(value);
    if (value.is_string()) return text(value.get<std::string>());
    if (value.is_boolean()) return !value.get<bool>();
    static const std::vector<json> others = {nullptr, json::array(),       json::object(),        0,
                                             "",      json::array({0, 1}), json::array({nullptr})};
    return any(others);
  }

  json number(const json& value) {
    static const std::vector<json> extremes = {-1,
                                               0,
                                               1,
                                               2,
                                               3,
                                               64,
                                               1.5,
                                               1e300,
                                               -1e300,
                                               std::int64_t{1} << 31,
                                               std::int64_t{1} << 40,
                                               std::int64_t{1} << 62,
                                               std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::uint64_t>::max()};
    if (!value.is_number_integer() || below(2) == 0) return any(extremes);
    const auto whole = value.get<std::uint64_t>();
    static constexpr std::uint64_t steps[] = {1, 2, ~std::uint64_t{0}, ~std::uint64_t{1}};
    return below(4) == 0 ? whole * 2 : whole + steps[below(4)];
  }

  std::string text(std::string value) {
    static const std::vector<std::string> others = {
        "",    "R",       "RR",      "S0R",        "RS0",           "S1R",        "RS01",
        "+P0", "float32", "float16", "int64",      "../rank0.onnx", "rank1.onnx", "rank0.data",
        "x",   "y",       "past",    "all-reduce", "send"};
    if (below(2) == 0) return any(others);
    if (value.empty() || below(3) == 0) return value + "0";
    value[below(value.size())] = static_cast<char>(' ' + below(95));
    return value;
  }

  std::mt19937& random_;
  std::vector<Place> places_;
};

}  // namespace

void add_edit(json& patch, const json& document, std::mt19937& random) {
  Editor(document, random).add_to(patch);
}

}  // namespace autopar::fuzz
