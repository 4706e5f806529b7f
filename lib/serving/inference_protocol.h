#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/session.h"

/// The messages of the Open Inference Protocol, version 2, over HTTP
/// (https://github.com/open-inference/open-inference-protocol), with the extension for binary
/// tensors, as Triton and KServe speak it.
namespace autopar::serving {

/// The model as clients know it. It has one version.
struct ServedModel {
  static constexpr std::string_view version = "1";
  std::string name;
  std::vector<runtime::ModelPort> inputs;
  std::vector<runtime::ModelPort> outputs;
};

/// Throws Error, all at once, for inputs and outputs of types that the protocol does not have.
void check_types(const ServedModel& model);

struct InferenceRequest {
  std::string id = {};
  runtime::NamedTensors inputs = {};
  struct Output {
    std::string name;
    bool is_binary = false;
  };
  std::vector<Output> outputs = {};  ///< in the order of the answer
};

/// `json_bytes`: how long the JSON is that binary tensors follow; none: it is all. Throws Error for
/// what is not in the protocol; whether the inputs fit the model, the session tells.
InferenceRequest parse_inference_request(std::string_view body,
                                         std::optional<std::size_t> json_bytes,
                                         const ServedModel& model);

struct InferenceAnswer {
  std::string body;
  std::optional<std::size_t> json_bytes;  ///< where binary tensors follow
};
InferenceAnswer inference_answer(const ServedModel& model, const InferenceRequest& request,
                                 const runtime::NamedTensors& outputs);

std::string server_metadata(std::string_view server_version);
std::string model_metadata(const ServedModel& model);
/// What every refusal's body is: one line.
std::string error_message(std::string_view error);

}  // namespace autopar::serving
