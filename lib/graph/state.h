#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/tail.h"

namespace autopar::graph {

/// The dimension and the rows by which an output is longer than the input that takes its place in
/// the next step.
struct Growth {
  int dim = 0;
  std::int64_t rows = 0;
};

/// nullopt where both have one shape; else the one dimension along which the output is longer.
/// Throws Error, naming both, where they differ otherwise.
std::optional<Growth> growth_of(const std::string& output, const Shape& output_shape,
                                const std::string& input, const Shape& input_shape);

/// Whether a state that grows is a buffer in which rows keep their places: only operators that
/// leave elements where they are lead from its input to its output, and padding behind has
/// lengthened it. So com.microsoft's GroupQueryAttention writes rows to where `seqlens_k` says.
/// Otherwise a step's new rows are the output's last ones.
bool keeps_places(const Graph& graph, const State& state);

/// A model's outputs and inputs by name.
struct StateNames {
  std::vector<std::string> outputs;
  std::vector<std::string> inputs;
};

/// The states that a pattern such as "present.*=past.*" names: for each output that fits the left
/// side, the input that the right side gives with what the star stood for. Throws Error for a
/// pattern of another form, one that names nothing, and an output without its input.
std::vector<State> match_state_names(const StateNames& names, const std::string& pattern);

/// The states that all patterns name. Throws Error, once for each pattern that is wrong, for what
/// match_state_names refuses, an input that is given twice, and a pair that does not fit.
std::vector<State> match_states(const Graph& graph, std::span<const std::string> patterns);

/// A state stays on its rank, and the tail is computed once, behind the last step. Throws Error for
/// a pattern that fits an output of the tail, and for an input of a state that the tail reads.
void refuse_states_of_tail(const TailSummary& tail, std::span<const std::string> patterns);
void refuse_tail_of_states(const TailSummary& tail, std::span<const std::string> state_inputs);

}  // namespace autopar::graph
