#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "graph/graph.h"

namespace autopar::runtime {

/// Reads a NumPy .npy file (NEP 1: versions 1 to 3, C order, little endian). bfloat16 is not in
/// NumPy and travels as .pb. Throws Error naming the file.
graph::Tensor load_npy(const std::filesystem::path& file);
/// Writes version 1.0. bfloat16 is widened to float32, which loses nothing.
void save_npy(const std::filesystem::path& file, const graph::Tensor& tensor);

/// Values a model input of this type and shape may take, the same for the same seed: floats normal
/// (0, 1), integers in [0, 2), which any table can index, bools.
graph::Tensor random_tensor(graph::DataType type, const graph::Shape& shape, std::uint64_t seed);

/// A tensor's name as a file name: characters other than letters, digits, `.`, `-`, `_` become `_`.
std::string safe_file_name(const std::string& tensor_name);

/// The largest |reference - other| over the largest |reference|. NaN equals NaN in the same place,
/// and infinity the same infinity; any other of them, another shape or type give infinity.
double largest_relative_error(const graph::Tensor& reference, const graph::Tensor& other);

/// Reads a .npy file, or a .pb with an ONNX TensorProto; throws Error for any other ending.
graph::Tensor load_tensor_file(const std::filesystem::path& file);

}  // namespace autopar::runtime
