#include "runtime/held_states.h"

#include <algorithm>

#include "base/error.h"
#include "bundle/nearest_profile.h"
#include "graph/arena.h"
#include "graph/onnx/onnx_overview.h"
#include "graph/state.h"
#include "runtime/step_loop.h"

namespace autopar::runtime {
namespace {

using bundle::PortInfo;
using bundle::ProfileInfo;
using bundle::StateInfo;
using graph::Shape;
using State = HeldStates::State;

std::optional<graph::Growth> growth_of(const ProfileInfo& profile, const StateInfo& state) {
  const PortInfo& output = *find_port(profile.outputs, state.output);
  const PortInfo& input = *find_port(profile.inputs, state.input);
  return graph::growth_of(output.name, output.shape, input.name, input.shape);
}

/// The same in all profiles; nullopt where the state is one of a fixed size.
std::optional<std::size_t> growing_dim(const bundle::MetaInfo& info, const StateInfo& state) {
  for (const ProfileInfo& profile : info.profiles)
    if (const auto growth = growth_of(profile, state)) return static_cast<std::size_t>(growth->dim);
  return std::nullopt;
}

/// Without the dimension in front that has an entry a step.
Shape step_shape(const PortInfo& port, const Shape& given) {
  const bool has_steps = given.size() == port.shape.size() + 1;
  return {given.begin() + (has_steps ? 1 : 0), given.end()};
}

/// What the symbols of inputs of known shapes stand for.
std::map<std::string, std::int64_t> extents_of(const PortSymbols& symbols,
                                               const InputShapes& shapes) {
  std::map<std::string, std::int64_t> extents;
  for (const auto& [name, shape] : shapes) {
    const auto dims = symbols.find(name);
    if (dims == symbols.end() || dims->second.size() != shape.size()) continue;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (dims->second[d] != "?" && graph::is_open(dims->second[d]))
        extents.emplace(dims->second[d], shape[d]);
  }
  return extents;
}

const State& find(const HeldStates& held, const std::string& input) {
  const auto found = std::ranges::find(held.states, input, &State::input);
  require(found != held.states.end(), "all of a bundle's states are held");
  return *found;
}

std::int64_t longest_of_profiles(const bundle::MetaInfo& info, const StateInfo& state,
                                 std::size_t dim) {
  std::int64_t rows = 0;
  for (const ProfileInfo& profile : info.profiles)
    rows = std::max(rows, find_port(profile.inputs, state.input)->shape[dim]);
  return rows;
}

State new_state(const bundle::MetaInfo& info, const ProfileInfo& profile, const StateInfo& state,
                const LoopOptions& loop, bool gives_states) {
  const PortInfo& port = *find_port(profile.inputs, state.input);
  State made{.output = state.output,
             .input = state.input,
             .type = port.type,
             .shape = port.shape,
             .parts = {},
             .growing_dim = growing_dim(info, state),
             .rows = loop.start};
  if (made.growing_dim) {
    std::int64_t& rows = made.shape[*made.growing_dim];
    if (loop.capacity > 0)
      rows = loop.capacity;
    else if (loop.past && !gives_states)
      rows = std::max(rows, longest_of_profiles(info, state, *made.growing_dim));
  }
  return made;
}

/// The rank's part of the buffer; along the dimension that grows every rank has all.
std::optional<Shape> part_of(const State& state, const PortInfo& port, std::size_t rank) {
  if (!port.ranges[rank]) return std::nullopt;
  Shape part;
  for (const graph::Range& range : *port.ranges[rank]) part.push_back(range.size());
  if (state.growing_dim) part[*state.growing_dim] = state.shape[*state.growing_dim];
  return part;
}

void check_place(const State& state, const LoopOptions& loop, std::int64_t rows) {
  if (!state.growing_dim) return;
  const std::int64_t place = state.shape[*state.growing_dim];
  if (rows > place)
    fail(
        "--steps {}: input '{}' would hold {} rows, but has place for {}; partition the model with "
        "a longer one",
        loop.steps, state.input, rows, place);
  if (loop.past && *loop.past > place)
    fail("input '{}' is to have {} rows of a state that has place for {}", state.input, *loop.past,
         place);
}

}  // namespace

PortSymbols port_symbols(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir) {
  PortSymbols symbols;
  if (info.structure.empty()) return symbols;
  bundle::check_common_files(info.structure, bundle_dir);
  const graph::ModelOverview model = graph::onnx_overview(bundle_dir / bundle::structure_file);
  for (const auto* ports : {&model.inputs, &model.outputs})
    for (const auto& port : *ports) symbols.emplace(port.name, port.dims);
  return symbols;
}

InputShapes step_shapes(const bundle::MetaInfo& info, const PortSymbols& symbols,
                        const NamedTensors& inputs, const LoopOptions& loop,
                        const HeldStates* before) {
  InputShapes shapes;
  for (const auto& [name, tensor] : inputs) {
    const PortInfo* port = find_port(info.profiles.front().inputs, name);
    shapes.emplace(name, port == nullptr ? tensor.shape() : step_shape(*port, tensor.shape()));
  }
  const ProfileInfo& nearest = info.profiles[bundle::nearest_profile(info, shapes)];
  const std::map<std::string, std::int64_t> extents = extents_of(symbols, shapes);
  for (const StateInfo& state : info.states) {
    if (shapes.contains(state.input)) continue;
    Shape shape;
    if (before != nullptr) {
      shape = find(*before, state.input).shape;
    } else {
      shape = find_port(nearest.inputs, state.input)->shape;
      const auto dims = symbols.find(state.input);
      for (std::size_t d = 0; dims != symbols.end() && d < shape.size(); ++d)
        if (const auto bound = extents.find(dims->second[d]); bound != extents.end())
          shape[d] = bound->second;
    }
    if (const auto dim = growing_dim(info, state)) {
      if (loop.past)
        shape[*dim] = *loop.past;
      else if (before == nullptr && loop.capacity > 0)
        shape[*dim] = loop.capacity;
    }
    shapes.emplace(state.input, std::move(shape));
  }
  return shapes;
}

HeldStates held_after(const bundle::MetaInfo& info, const ProfileInfo& profile,
                      const LoopOptions& loop, bool gives_states, const HeldStates* before) {
  HeldStates held;
  for (const StateInfo& info_of : info.states) {
    const PortInfo& port = *find_port(profile.inputs, info_of.input);
    State state = before != nullptr ? find(*before, info_of.input)
                                    : new_state(info, profile, info_of, loop, gives_states);
    std::vector<std::optional<Shape>> parts;
    for (std::size_t rank = 0; rank < info.ranks.size(); ++rank)
      parts.push_back(part_of(state, port, rank));
    if (before != nullptr && parts != state.parts)
      fail("input '{}' of {} lies otherwise on the ranks than what the last run has left of it",
           state.input, graph::to_string(port.shape));
    state.parts = std::move(parts);
    const auto growth = growth_of(profile, info_of);
    const std::int64_t rows = growth ? growth->rows : 0;  // of a step
    check_place(state, loop, state.rows + (loop.steps - 1) * rows);
    state.rows += loop.steps * rows;
    held.states.push_back(std::move(state));
  }
  return held;
}

bool are_alike(const HeldStates& a, const HeldStates& b) {
  return std::ranges::equal(a.states, b.states, [](const State& x, const State& y) {
    return x.input == y.input && x.output == y.output && x.shape == y.shape && x.parts == y.parts;
  });
}

std::vector<StateBuffer> buffers_of(const HeldStates& held, int rank) {
  std::vector<StateBuffer> buffers;
  for (const State& state : held.states)
    if (const auto& part = state.parts[static_cast<std::size_t>(rank)])
      buffers.push_back({state.output, state.input, state.type, *part});
  return buffers;
}

std::int64_t bytes_beside(const HeldStates& held, const ProfileInfo& profile, int rank) {
  std::int64_t bytes = 0;
  for (const State& state : held.states) {
    const auto& part = state.parts[static_cast<std::size_t>(rank)];
    if (!part || find_port(profile.inputs, state.input)->shape == state.shape) continue;
    bytes += graph::aligned(graph::bytes_of(state.type, graph::num_elements(*part)));
  }
  return bytes;
}

}  // namespace autopar::runtime
