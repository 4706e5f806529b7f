#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "graph/tensor.h"

/// Tensors as JSON: numbers, true and false, in lists for dimensions. JSON has no numbers for NaN
/// and infinities: they are the texts "NaN", "Infinity" and "-Infinity". Half types are written as
/// the float32 that they equal. Errors name `what` the tensor is.
namespace autopar::serving {

/// Integers, bools, and floats of 16 bits and more; no others can be told.
bool is_told_in_json(graph::DataType type);

/// Parses JSON; Error, a line, for anything else.
nlohmann::json parse_json(std::string_view text);
/// A value for a message, cut where it is long.
std::string shown(const nlohmann::json& value);

/// Lists within lists, which tell the shape; a scalar has none. Throws Error for lists that are
/// ragged and values that are none of the type: none is rounded to an integer or to infinity.
graph::Tensor tensor_of_nested(const nlohmann::json& value, graph::DataType type,
                               std::string_view what);
/// The values of a shape that is told, in one list or nested as it is.
graph::Tensor tensor_of_values(const nlohmann::json& value, graph::DataType type,
                               const graph::Shape& shape, std::string_view what);

/// Appends a list within lists; floats are as short as they can be and read back the same.
void append_nested(std::string& text, const graph::Tensor& tensor, std::string_view what);
/// Appends one list.
void append_flat(std::string& text, const graph::Tensor& tensor, std::string_view what);

}  // namespace autopar::serving
