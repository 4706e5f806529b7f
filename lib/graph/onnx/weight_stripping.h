#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace autopar::graph {

/// The `location` of external data that lies in the model's own file.
inline constexpr const char* this_file_location = "\x01this file";

/// A copy of a serialized ModelProto in which every tensor payload of at least 1 KiB that lies in
/// the file as it lies in memory (raw_data, packed float_data and double_data) became a reference
/// to external data at `this_file_location`, so that protobuf, which copies what it parses, never
/// copies weights. Works on the wire format (protobuf.dev/programming-guides/encoding) without
/// limits on the file's size. Throws Error where the bytes are no ONNX model or end too early.
std::string strip_weights(std::span<const std::byte> model, const std::filesystem::path& file);

/// Throws Error where graphs are nested deeper than protobuf parses, with the node that holds them.
void check_nesting(std::span<const std::byte> model, const std::filesystem::path& file);

}  // namespace autopar::graph
