#include "graph/data_type.h"

#include <array>

#include "base/error.h"

namespace autopar::graph {
namespace {

struct TypeInfo {
  std::string_view name;
  int bits;
  bool floating;
};

/// Indexed by the type's number.
constexpr std::array<TypeInfo, 27> types = {{
    {"undefined", 0, false},     {"float32", 32, true},   {"uint8", 8, false},
    {"int8", 8, false},          {"uint16", 16, false},   {"int16", 16, false},
    {"int32", 32, false},        {"int64", 64, false},    {"string", 0, false},
    {"bool", 8, false},          {"float16", 16, true},   {"float64", 64, true},
    {"uint32", 32, false},       {"uint64", 64, false},   {"complex64", 64, false},
    {"complex128", 128, false},  {"bfloat16", 16, true},  {"float8e4m3fn", 8, true},
    {"float8e4m3fnuz", 8, true}, {"float8e5m2", 8, true}, {"float8e5m2fnuz", 8, true},
    {"uint4", 4, false},         {"int4", 4, false},      {"float4e2m1", 4, true},
    {"float8e8m0", 8, true},     {"uint2", 2, false},     {"int2", 2, false},
}};

const TypeInfo& info_of(DataType type) {
  require(is_data_type(static_cast<std::int64_t>(type)), "a data type has a number ONNX knows");
  return types[static_cast<std::size_t>(type)];
}

}  // namespace

bool is_data_type(std::int64_t number) { return number >= 0 && number < std::ssize(types); }

std::string_view name_of(DataType type) { return info_of(type).name; }

DataType parse_data_type(std::string_view name) {
  for (std::size_t i = 1; i < types.size(); ++i)
    if (types[i].name == name) return static_cast<DataType>(i);
  fail("unknown data type '{}': expected one like float32, bfloat16, int64 or bool", name);
}

int bits_of(DataType type) { return info_of(type).bits; }

std::int64_t bytes_of(DataType type, std::int64_t elements) {
  return (elements * bits_of(type) + 7) / 8;
}

bool is_floating_point(DataType type) { return info_of(type).floating; }

bool is_low_precision(DataType type) {
  const TypeInfo& info = info_of(type);
  return info.bits > 0 && (info.bits < 8 || (info.bits == 8 && info.floating));
}

}  // namespace autopar::graph
