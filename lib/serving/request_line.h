#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/session.h"

/// A run asked for in one line of JSON, and its answer in another:
///
///     {"id": 7, "inputs": {"input_ids": "a.npy" or [[1, 2, 3]]}, "outputs": "inline" or FOLDER}
namespace autopar::serving {

struct RequestLine {
  nlohmann::json id;  ///< a text or a number; null where none is given
  runtime::NamedTensors inputs;
  std::optional<std::filesystem::path> folder = {};  ///< that gets the outputs; none: the answer
};

/// Reads inputs that are files. `inputs` are the session's: they tell the type of what stands in
/// the line itself. Folders are in `output_dir`. Throws Error for anything that is wrong; the
/// request's id, as far as it was read, is in `id`.
RequestLine parse_request_line(std::string_view line, const std::vector<runtime::ModelPort>& inputs,
                               const std::filesystem::path& output_dir, nlohmann::json& id);

/// The answer, which ends with a line break. Writes the outputs where they are to go to a folder,
/// which is whole or absent; throws Error where that fails.
std::string answer_line(const RequestLine& request, const runtime::RunResult& result);
/// The answer to what was refused or has failed.
std::string refusal_line(const nlohmann::json& id, std::string_view error);

/// Names that files of the outputs have in a folder, beside `.npy`, by output. Names that become
/// equal when they are made safe get a number.
std::vector<std::pair<std::string, std::string>> output_files(const runtime::NamedTensors& outputs);

}  // namespace autopar::serving
