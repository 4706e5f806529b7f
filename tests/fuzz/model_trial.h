#pragma once

#include <filesystem>

namespace autopar::fuzz {

/// Takes an ONNX file the way that `plan`, `partition` and `run` take it: reads it with small
/// limits, folds constants, plans it for two devices, and, where it is small, runs it whole and,
/// with one file in eight, as a bundle of two ranks, threads of this process, on random inputs.
/// Throws Error where a step does.
void try_model(const std::filesystem::path& file);

}  // namespace autopar::fuzz
