#pragma once

#include <filesystem>

#include "base/json_fields.h"
#include "bundle/meta_info.h"

namespace autopar {

template <>
struct JsonValue<graph::Range> {
  static json of(const graph::Range& range) { return {range.begin, range.end}; }
  static graph::Range from(const json& value);
};

template <>
struct JsonValue<graph::DataType> {
  static json of(graph::DataType type) { return name_of(type); }
  static graph::DataType from(const json& value);
};

namespace bundle {

void fields(auto& visit, Like<FileInfo> auto& file) {
  visit("name", file.name);
  visit("bytes", file.bytes);
  visit("xxh3", file.xxh3);
}

/// Throws Error, with the place, where something is wrong.
void check(const JsonReader& reader, bool holds, const std::string& what);
void check_fields(const JsonReader& reader, const FileInfo& file);

/// What meta-info.json of a bundle holds. Throws Error for a file that is none.
json load_meta_info_json(const std::filesystem::path& file);
/// `parsed` is that of the file.
JsonReader reader_of(const json& parsed, const std::filesystem::path& file);

}  // namespace bundle
}  // namespace autopar
