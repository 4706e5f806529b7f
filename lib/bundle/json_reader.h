#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bundle/meta_info.h"

namespace autopar::bundle {

using json = nlohmann::json;

struct Malformed {};

/// nlohmann's own conversions would round fractions and wrap negative numbers; no integer of
/// meta-info is negative.
template <typename T>
struct Parse {
  static T from(const json& value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!value.is_number_integer()) throw Malformed{};
      const bool is_negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
      if (is_negative || value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<T>::max()})
        throw Malformed{};
    }
    return value.get<T>();
  }
};

template <typename T>
struct Parse<std::vector<T>> {
  static std::vector<T> from(const json& value) {
    if (!value.is_array()) throw Malformed{};
    std::vector<T> items;
    for (const json& item : value) items.push_back(Parse<T>::from(item));
    return items;
  }
};

template <typename T>
struct Parse<std::optional<T>> {
  static std::optional<T> from(const json& value) {
    if (value.is_null()) return std::nullopt;
    return Parse<T>::from(value);
  }
};

template <>
struct Parse<graph::Range> {
  static graph::Range from(const json& value) {
    const auto ends = Parse<std::vector<std::int64_t>>::from(value);
    if (ends.size() != 2 || ends[0] > ends[1]) throw Malformed{};
    return {ends[0], ends[1]};
  }
};

template <>
struct Parse<graph::DataType> {
  static graph::DataType from(const json& value) {
    try {
      return graph::parse_data_type(value.get<std::string>());
    } catch (const Error&) {
      throw Malformed{};
    }
  }
};

/// Reads an object's fields by name; an absent or malformed one is an Error that names it.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    check(object_.is_object(), "is no JSON object");
  }

  template <typename T>
  T get(const char* field) const {
    try {
      return Parse<T>::from(at(field));
    } catch (const Malformed&) {
      malformed(field);
    } catch (const json::exception&) {
      malformed(field);
    }
  }

  Reader object(const char* field) const { return {at(field), where_ + ": " + field}; }
  std::optional<Reader> object_or_null(const char* field) const {
    if (at(field).is_null()) return std::nullopt;
    return object(field);
  }

  template <typename Read>
  auto list(const char* field, Read read) const {
    const json& items = at(field);
    if (!items.is_array()) malformed(field);
    std::vector<decltype(read(std::declval<Reader>()))> result;
    for (const json& item : items) {
      result.push_back(read(Reader(item, fmt::format("{}: {}[{}]", where_, field, result.size()))));
    }
    return result;
  }

  void check(bool holds, const std::string& what) const {
    if (!holds) fail("{} {}; partition the model again", where_, what);
  }

 private:
  [[noreturn]] void malformed(const char* field) const {
    fail("{}: field '{}' is malformed; partition the model again", where_, field);
  }

  const json& at(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) {
      fail("{}: field '{}' is missing; partition the model again", where_, field);
    }
    return *found;
  }

  const json& object_;
  std::string where_;
};

FileInfo read_file(const Reader& reader);
json to_json(const std::vector<FileInfo>& files);

/// Throws Error for a file that is none.
json load_meta_info_json(const std::filesystem::path& file);

}  // namespace autopar::bundle
