#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>

namespace autopar {

/// The part of JSON Schema (draft 2020-12) that our schemas use. A keyword that is not known here
/// is an exception, so that none is passed over.
class JsonSchema {
 public:
  using Json = nlohmann::json;

  explicit JsonSchema(const std::filesystem::path& file) {
    std::ifstream stream(file);
    root_ = Json::parse(stream);
  }

  bool accepts(const Json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const Json& schema, const Json& value) const {
    return std::ranges::all_of(schema.items(), [&](const auto& keyword) {
      return holds(schema, keyword.key(), keyword.value(), value);
    });
  }

  bool holds(const Json& schema, const std::string& keyword, const Json& argument,
             const Json& value) const {
    if (keyword == "$schema" || keyword == "title" || keyword == "description" ||
        keyword == "$defs")
      return true;
    if (keyword == "$ref") return accepts(referred(argument), value);
    if (keyword == "const") return value == argument;
    if (keyword == "enum") return std::ranges::find(argument, value) != argument.end();
    if (keyword == "type") return has_type(argument, value);
    if (keyword == "minimum") return !value.is_number() || value >= argument;
    if (keyword == "minItems") return !value.is_array() || value.size() >= argument;
    if (keyword == "maxItems") return !value.is_array() || value.size() <= argument;
    if (keyword == "pattern") {
      return !value.is_string() ||
             std::regex_search(value.get<std::string>(), std::regex(argument.get<std::string>()));
    }
    if (keyword == "items") {
      return !value.is_array() ||
             std::ranges::all_of(value, [&](const Json& item) { return accepts(argument, item); });
    }
    if (keyword == "required") {
      return !value.is_object() || std::ranges::all_of(argument, [&](const Json& name) {
        return value.contains(name.get<std::string>());
      });
    }
    if (keyword == "properties") {
      return !value.is_object() || std::ranges::all_of(argument.items(), [&](const auto& property) {
        return !value.contains(property.key()) ||
               accepts(property.value(), value.at(property.key()));
      });
    }
    if (keyword == "additionalProperties" && argument == false) {
      return !value.is_object() || std::ranges::all_of(value.items(), [&](const auto& property) {
        return schema.at("properties").contains(property.key());
      });
    }
    throw std::logic_error("unknown keyword " + keyword);
  }

  const Json& referred(const Json& reference) const {
    return root_.at(Json::json_pointer(reference.get<std::string>().substr(1)));
  }

  static bool has_type(const Json& types, const Json& value) {
    if (types.is_string()) return has_type(types.get<std::string>(), value);
    return std::ranges::any_of(types, [&](const Json& type) { return has_type(type, value); });
  }

  static bool has_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    throw std::logic_error("unknown type " + type);
  }

  Json root_;
};

/// The schema in lib/bundle. Not by way of __FILE__, which ccache may make relative.
inline JsonSchema meta_info_schema() {
  const std::filesystem::path sources = AUTOPAR_SOURCE_DIR;
  return JsonSchema(sources / "lib/bundle/meta-info.schema.json");
}

}  // namespace autopar
