#include "runtime/step_loop.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "base/problems.h"
#include "graph/state.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {
namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;

/// A profile's ports as a graph without nodes, which is all that patterns are about.
graph::Graph graph_of_ports(const bundle::ProfileInfo& profile) {
  graph::Graph graph;
  const auto add = [&](const std::vector<bundle::PortInfo>& ports,
                       std::vector<graph::ValueId>& ids) {
    for (const bundle::PortInfo& port : ports)
      ids.push_back(graph.add_value({port.name, port.type, port.shape, {}}));
  };
  add(profile.inputs, graph.inputs);
  add(profile.outputs, graph.outputs);
  return graph;
}

void check_state(const bundle::PortInfo& output, const bundle::PortInfo& input) {
  const auto growth = graph::growth_of(output.name, output.shape, input.name, input.shape);
  std::size_t whole = input.shape.size();  // a dimension that must not be split
  if (growth) whole = static_cast<std::size_t>(growth->dim);
  for (std::size_t rank = 0; rank < input.ranges.size(); ++rank) {
    const auto& from = output.ranges[rank];
    const auto& to = input.ranges[rank];
    bool fits = from.has_value() == to.has_value();
    for (std::size_t d = 0; fits && from && d < input.shape.size(); ++d) {
      const bool is_all = (*from)[d].size() == output.shape[d] && (*to)[d].size() == input.shape[d];
      fits = d == whole ? is_all : (*from)[d] == (*to)[d];
    }
    if (!fits)
      fail(
          "rank {} has another part of output '{}' than of input '{}', which follows it: "
          "partition the model with --loop {}={}",
          rank, output.name, input.name, output.name, input.name);
  }
}

void check_choice(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                  const LoopOptions::Choice& choice) {
  const auto is_it = [&](const graph::ModelOutput& each) { return each.name == choice.output; };
  if (info.tail && std::ranges::any_of(info.tail->summary.outputs, is_it))
    fail(
        "--choose {}={}: output '{}' is the tail's, which is computed behind the last step; name "
        "an output whose shape is known before the run",
        choice.output, choice.input, choice.output);
  const bundle::PortInfo* output = find_port(profile.outputs, choice.output);
  const bundle::PortInfo* input = find_port(profile.inputs, choice.input);
  if (output == nullptr || input == nullptr)
    fail("--choose {}={}: the model has no such {}", choice.output, choice.input,
         output == nullptr ? "output" : "input");
  const bool is_integer = input->type == DataType::int64 || input->type == DataType::int32;
  const std::int64_t classes = output->shape.empty() ? 0 : output->shape.back();
  if (!is_integer || classes == 0 ||
      graph::num_elements(output->shape) / classes != graph::num_elements(input->shape))
    fail(
        "--choose {}={}: an input of int64 or int32 with an element for each row of the output is "
        "wanted, not {} of {} for {}",
        choice.output, choice.input, graph::to_string(input->shape), name_of(input->type),
        graph::to_string(output->shape));
}

bool is_state(const bundle::MetaInfo& info, const std::string& input) {
  return std::ranges::find(info.states, input, &bundle::StateInfo::input) != info.states.end();
}

bool is_chosen(const LoopOptions& options, const std::string& input) {
  return std::ranges::find(options.choices, input, &LoopOptions::Choice::input) !=
         options.choices.end();
}

/// How many steps a tensor has entries for; 0 where it is the same for all.
std::int64_t entries(const Tensor& tensor, const bundle::PortInfo& port) {
  const Shape& shape = tensor.shape();
  const bool has_one_more = shape.size() == port.shape.size() + 1 &&
                            std::equal(port.shape.begin(), port.shape.end(), shape.begin() + 1);
  return has_one_more ? shape.front() : 0;
}

Tensor entry(const Tensor& tensor, const bundle::PortInfo& port, std::int64_t step) {
  std::vector<graph::Range> ranges = {{step, step + 1}};
  for (const std::int64_t extent : port.shape) ranges.push_back({0, extent});
  return tensor.slice(ranges).contiguous_copy().reshaped(port.shape);
}

void check_input(const bundle::MetaInfo& info, const bundle::PortInfo& port, const Tensor& tensor,
                 const LoopOptions& options, Extents extents) {
  const std::int64_t steps = options.is_loop() ? entries(tensor, port) : 0;
  const bool has_enough = is_chosen(options, port.name) || steps >= options.steps;
  const bool has_extents = extents == Extents::any ? tensor.shape().size() == port.shape.size()
                                                   : tensor.shape() == port.shape;
  const bool fits = has_extents || (steps > 0 && has_enough);
  if (tensor.type() == port.type && fits && (steps == 0 || !is_state(info, port.name))) return;
  const std::string given = fmt::format("input '{}' is {} of {}", port.name,
                                        graph::to_string(tensor.shape()), name_of(tensor.type()));
  if (extents == Extents::any && steps == 0)
    fail("{}, but the model takes {} of {} dimension{}", given, name_of(port.type),
         port.shape.size(), port.shape.size() == 1 ? "" : "s");
  fail("{}, but the bundle was made for {} of {}{}", given, graph::to_string(port.shape),
       name_of(port.type), steps > 0 ? fmt::format(", in {} steps", options.steps) : "");
}

void add_unknown(const std::string& name, const std::vector<std::string>& known, bool by_options,
                 Problems& problems) {
  const std::string given = by_options ? "--input " + name : fmt::format("input '{}'", name);
  problems.add("{}: the model has no such input; it has {}", given, fmt::join(known, ", "));
}

void add_missing(const std::vector<std::string>& missing, const std::vector<std::string>& known,
                 bool by_options, Problems& problems) {
  const char* const plural = missing.size() > 1 ? "s" : "";
  if (by_options)
    problems.add("no tensor for input{} '{}': give --input {}=FILE.npy, or --random-inputs SEED",
                 plural, fmt::join(missing, "', '"), fmt::join(missing, "=FILE.npy --input "));
  else
    problems.add("input{} '{}' {} missing; the model has {}", plural, fmt::join(missing, "', '"),
                 missing.size() > 1 ? "are" : "is", fmt::join(known, ", "));
}

}  // namespace

const bundle::PortInfo* find_port(const std::vector<bundle::PortInfo>& ports,
                                  const std::string& name) {
  const auto found = std::ranges::find(ports, name, &bundle::PortInfo::name);
  return found == ports.end() ? nullptr : &*found;
}

void set_states(bundle::MetaInfo& info, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  if (info.tail) graph::refuse_states_of_tail(info.tail->summary, patterns);
  info.states.clear();
  const bundle::ProfileInfo& profile = info.profiles.front();
  const graph::Graph ports = graph_of_ports(profile);
  for (const graph::State& state : graph::match_states(ports, patterns))
    info.states.push_back({profile.outputs[state.output].name, profile.inputs[state.input].name});
}

void check_loop(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                const LoopOptions& options) {
  if (options.steps < 1) fail("--steps {}: give at least 1", options.steps);
  if (!options.is_loop()) return;
  if (info.microbatches > 1)
    fail("--steps {}: a loop is for bundles of one microbatch; partition the model without them",
         options.steps);
  if (options.start < 0)
    fail("--start {}: give the rows that states hold, 0 or more", options.start);
  Problems problems;
  problems.collect([&] {  // what is wrong with one state is so with those of all layers
    for (const bundle::StateInfo& state : info.states)
      check_state(*find_port(profile.outputs, state.output),
                  *find_port(profile.inputs, state.input));
  });
  std::vector<std::string> inputs;
  for (const bundle::StateInfo& state : info.states) inputs.push_back(state.input);
  if (info.tail)
    problems.collect([&] { graph::refuse_tail_of_states(info.tail->summary, inputs); });
  for (const LoopOptions::Choice& choice : options.choices)
    problems.collect([&] { check_choice(info, profile, choice); });
  problems.throw_if_any();
}

void check_inputs(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                  const NamedTensors& inputs, const LoopOptions& options, const InputCheck& check) {
  std::vector<std::string> known;
  for (const bundle::PortInfo& port : profile.inputs) known.push_back(port.name);
  Problems problems;
  const auto is_unknown = [&](const std::string& name) {
    return find_port(profile.inputs, name) == nullptr;
  };
  auto misnamed = static_cast<std::size_t>(std::ranges::count_if(check.unread, is_unknown));
  for (const auto& [name, tensor] : inputs) {
    if (!is_unknown(name)) continue;
    ++misnamed;
    add_unknown(name, known, check.by_options, problems);
  }
  std::vector<std::string> missing;
  for (const bundle::PortInfo& port : profile.inputs) {
    const auto found = inputs.find(port.name);
    const bool may_be_absent = (options.is_loop() && is_state(info, port.name)) ||
                               std::ranges::find(check.unread, port.name) != check.unread.end();
    if (found != inputs.end())
      problems.collect([&] { check_input(info, port, found->second, options, check.extents); });
    else if (!may_be_absent)
      missing.push_back(port.name);
  }
  if (missing.size() > misnamed)  // else they are those that the names mean
    add_missing(missing, known, check.by_options, problems);
  problems.throw_if_any();
}

NamedTensors inputs_of_step(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                            const NamedTensors& inputs, const LoopOptions& options, int step,
                            const NamedTensors& chosen) {
  NamedTensors of_step;
  for (const bundle::PortInfo& port : profile.inputs) {
    const auto given = inputs.find(port.name);
    if (is_state(info, port.name) && options.is_loop()) {
      if (step == 0 && given != inputs.end()) of_step[port.name] = given->second;
      continue;
    }
    const std::int64_t steps = options.is_loop() ? entries(given->second, port) : 0;
    if (step < steps)
      of_step[port.name] = entry(given->second, port, step);
    else if (step > 0 && chosen.contains(port.name))
      of_step[port.name] = chosen.at(port.name);
    else
      of_step[port.name] = given->second;
  }
  return of_step;
}

Tensor choose(const Tensor& scores, DataType type, const Shape& shape) {
  const std::int64_t classes = scores.shape().back();
  Tensor places = Tensor::zeros(type, shape);
  const auto search = [&]<typename T>(T) {
    const auto values = scores.values<T>();
    for (std::int64_t row = 0; row < places.elements(); ++row) {
      const auto first = values.begin() + row * classes;
      const auto largest = std::max_element(first, first + classes,
                                            [](T a, T b) { return widened(a) < widened(b); });
      const std::int64_t place = largest - first;
      std::byte* to = places.mutable_bytes().data();
      if (type == DataType::int64)
        reinterpret_cast<std::int64_t*>(to)[row] = place;
      else
        reinterpret_cast<std::int32_t*>(to)[row] = static_cast<std::int32_t>(place);
    }
  };
  if (!visit_type(stored_type(scores.type()), Joined<Numbers, Halves>{}, search))
    fail("--choose: elements of {} have no order", name_of(scores.type()));
  return places;
}

}  // namespace autopar::runtime
