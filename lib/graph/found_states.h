#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// The states that names and shapes tell, in the order of outputs: an output with the word
/// "present" takes the place of the input that is called alike with "past", as exporters of
/// decoders name caches:
///
///     past_key_values.0.key          present.0.key            optimum, onnxruntime-genai
///     past_key_values.0.decoder.key  present.0.decoder.key    optimum, of two caches
///     past_key_values_0_key          present_key_values_0_key torch.onnx
///     past_key_self_0, past_0        present_key_self_0, present_0   ONNX Runtime's tools
///
/// "key_values", "kv" and "cache" behind these words say nothing. A pair has one type, and shapes
/// that are alike or of which the output's is longer in one dimension. Layers are found together
/// or not at all: where one pair does not fit, none is found that is called alike but for numbers.
std::vector<State> find_states(const Graph& graph);

/// Patterns that name the states as --loop does, each once and with a star for a first number:
/// "present.*.key=past_key_values.*.key".
std::vector<std::string> state_patterns(const Graph& graph);

}  // namespace autopar::graph
