#pragma once

#include <cstdint>
#include <string_view>

namespace autopar::graph {

/// Element types, numbered as ONNX's TensorProto.DataType numbers them.
enum class DataType : std::int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};

/// Whether a file's number is that of a type, `undefined` among them.
bool is_data_type(std::int64_t number);

/// "float32", "bfloat16", ... as messages, JSON and device files spell it.
std::string_view name_of(DataType type);

/// Inverse of name_of; throws Error for an unknown name.
DataType parse_data_type(std::string_view name);

/// Bits of one element as ONNX stores it; 0 for strings, which have no fixed size.
int bits_of(DataType type);

/// Bytes that `elements` elements take, 4-bit types two to a byte, 2-bit types four.
std::int64_t bytes_of(DataType type, std::int64_t elements);

/// float16, bfloat16, float32, float64 (and the 8- and 4-bit floats).
bool is_floating_point(DataType type);

/// 8-bit floats and what takes less than a byte: types that are stored and converted, and that no
/// operator computes in.
bool is_low_precision(DataType type);

}  // namespace autopar::graph
