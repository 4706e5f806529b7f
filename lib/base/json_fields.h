#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

/// JSON objects as structs. A struct is told once, by a function in its namespace or the visitor's,
///
///     void fields(auto& visit, Like<Point> auto& p) { visit("x", p.x), visit("y", p.y); }
///
/// which serves JsonReader and JsonWriter alike; fields may be such structs, vectors and optionals.
/// A type that JSON writes as something else has a JsonValue.
namespace autopar {

using json = nlohmann::json;

template <typename T, typename Struct>
concept Like = std::is_same_v<std::remove_const_t<T>, Struct>;

/// Thrown for a value that is not what a field holds; the reader says which field.
struct MalformedJson {};

/// nlohmann's own conversions would round fractions and wrap negative numbers; no integer of these
/// files is negative.
template <typename T>
struct JsonValue {
  static json of(const T& value) { return value; }
  static T from(const json& value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!value.is_number_integer()) throw MalformedJson{};
      const bool is_negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
      if (is_negative || value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<T>::max()})
        throw MalformedJson{};
    }
    if constexpr (std::is_floating_point_v<T>)
      if (!value.is_number()) throw MalformedJson{};  // nlohmann reads true as 1
    return value.get<T>();
  }
};

template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
inline constexpr bool is_vector<std::span<T>> = true;
template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// Makes an object of the fields that it visits.
struct JsonWriter {
  json object = json::object();

  template <typename T>
  void operator()(const char* field, const T& value) {
    object[field] = write(value);
  }
  template <typename Visit>
  void inside(const char* field, const Visit& visit) {
    JsonWriter inner;
    visit(inner);
    object[field] = std::move(inner.object);
  }

  template <typename T>
  static json write(const T& value) {
    if constexpr (requires(JsonWriter writer) { fields(writer, value); }) {
      JsonWriter writer;
      fields(writer, value);
      return std::move(writer.object);
    } else if constexpr (is_vector<T>) {
      json list = json::array();
      for (const auto& item : value) list.push_back(write(item));
      return list;
    } else if constexpr (is_optional<T>) {
      return value ? write(*value) : json(nullptr);
    } else {
      return JsonValue<T>::of(value);
    }
  }
};

/// How a file's readers speak: formats with {} for the place and, but for the first, for the field.
struct JsonWords {
  std::string_view no_object;
  std::string_view missing;
  std::string_view malformed;
};

/// Reads the fields of an object that it visits; an absent or malformed one is an Error that names
/// it. Where a struct has `check_fields(reader, value)`, that is called for each that is read.
class JsonReader {
 public:
  JsonReader(const json& object, std::string where, const JsonWords& words)
      : object_(object), where_(std::move(where)), words_(words) {
    if (!object_.is_object()) fail(fmt::runtime(words_.no_object), where_);
  }

  const std::string& where() const { return where_; }
  bool has(const char* field) const { return object_.contains(field); }

  template <typename T>
  void operator()(const char* field, T& value) const {
    try {
      value = read<T>(at(field), field);
    } catch (const MalformedJson&) {
      fail(fmt::runtime(words_.malformed), where_, field);
    } catch (const json::exception&) {
      fail(fmt::runtime(words_.malformed), where_, field);
    }
  }
  template <typename Visit>
  void inside(const char* field, const Visit& visit) const {
    const JsonReader inner(at(field), where_ + ": " + field, words_);
    visit(inner);
  }
  template <typename T>
  T get(const char* field) const {
    T value{};
    (*this)(field, value);
    return value;
  }
  /// For what files of older programs lack.
  template <typename T>
  T get_or(const char* field, T otherwise) const {
    return has(field) ? get<T>(field) : otherwise;
  }

 private:
  /// `place` is the value's within this object: "links[1]".
  template <typename T>
  T read(const json& value, const std::string& place) const {
    if constexpr (requires(const JsonReader& reader, T told) { fields(reader, told); }) {
      const JsonReader reader(value, where_ + ": " + place, words_);
      T result;
      fields(reader, result);
      if constexpr (requires { check_fields(reader, result); }) check_fields(reader, result);
      return result;
    } else if constexpr (is_vector<T>) {
      if (!value.is_array()) throw MalformedJson{};
      T items;
      for (const json& item : value)
        items.push_back(
            read<typename T::value_type>(item, fmt::format("{}[{}]", place, items.size())));
      return items;
    } else if constexpr (is_optional<T>) {
      if (value.is_null()) return std::nullopt;
      return read<typename T::value_type>(value, place);
    } else {
      return JsonValue<T>::from(value);
    }
  }

  const json& at(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) fail(fmt::runtime(words_.missing), where_, field);
    return *found;
  }

  const json& object_;
  std::string where_;
  const JsonWords& words_;
};

}  // namespace autopar
