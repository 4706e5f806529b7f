#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"
#include "runtime/state_buffers.h"

/// What a session knows of its states before its ranks run, the same in each process.
namespace autopar::runtime {

/// States of all ranks as a session's buffers have them.
struct HeldStates {
  struct State {
    std::string output;
    std::string input;
    graph::DataType type = graph::DataType::undefined;
    graph::Shape shape;                              ///< global
    std::vector<std::optional<graph::Shape>> parts;  ///< by rank; none where it has none of it
    std::optional<std::size_t> growing_dim;
    /// That steps have made, those of the last one among them, which are not in the buffer yet.
    std::int64_t rows = 0;
  };

  std::vector<State> states;  ///< none before the first loop
  std::size_t shape = 0;      ///< the number of the last run's, which has its last step's rows
  std::string lost;           ///< why no run can go on from the last one; empty where one can
};

/// By input or output, then by dimension: its symbol, a number, or "?".
using PortSymbols = std::map<std::string, std::vector<std::string>>;
/// As the model's structure declares them; none in bundles that have no structure.
PortSymbols port_symbols(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir);

/// The shapes of all inputs in a step of a loop. Those of states that are not given follow from
/// `before`, which the run goes on from; where that is null, from the symbols that other inputs
/// bind, else they are as in the nearest profile.
InputShapes step_shapes(const bundle::MetaInfo& info, const PortSymbols& symbols,
                        const NamedTensors& inputs, const LoopOptions& loop,
                        const HeldStates* before);

/// What is held behind a loop with the graph of `profile`, which goes on from `before` or, where
/// that is null, begins anew. Throws Error where a state has no place for so many rows.
HeldStates held_after(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                      const LoopOptions& loop, bool gives_states, const HeldStates* before);

/// Whether both have the same buffers.
bool are_alike(const HeldStates& a, const HeldStates& b);
std::vector<StateBuffer> buffers_of(const HeldStates& held, int rank);
/// What a rank's buffers take beside the inputs of a graph of this profile: some inputs are buffers
/// themselves.
std::int64_t bytes_beside(const HeldStates& held, const bundle::ProfileInfo& profile, int rank);

}  // namespace autopar::runtime
