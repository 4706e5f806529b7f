#include "runtime/decoder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/problems.h"
#include "graph/onnx/onnx_import.h"
#include "graph/state.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/step_loop.h"

namespace autopar::runtime {
namespace {

using bundle::PortInfo;
using graph::DataType;
using graph::Shape;
using graph::Tensor;
using Cache = DecoderPorts::Cache;

/// What inputs of decoders count in; masks are of floats or of bools, too.
using Counts = Joined<Floats, SignedIntegers, Types<std::uint8_t>>;

bool is_integer(DataType type) { return type == DataType::int64 || type == DataType::int32; }

bool is_state(const bundle::MetaInfo& info, const std::string& input) {
  return std::ranges::find(info.states, input, &bundle::StateInfo::input) != info.states.end();
}

/// By how much a state's output is longer than its input; nullopt where it is not.
std::optional<graph::Growth> growth_of(const bundle::ProfileInfo& profile,
                                       const bundle::StateInfo& state) {
  const PortInfo& output = *find_port(profile.outputs, state.output);
  const PortInfo& input = *find_port(profile.inputs, state.input);
  return graph::growth_of(output.name, output.shape, input.name, input.shape);
}

std::size_t index_of(const graph::Graph& shard, const std::vector<graph::ValueId>& ports,
                     const std::string& name) {
  const auto found = std::ranges::find(
      ports, name, [&](graph::ValueId id) -> const std::string& { return shard.value(id).name; });
  if (found == ports.end()) fail("a shard has no '{}'; partition the model again", name);
  return static_cast<std::size_t>(found - ports.begin());
}

/// The first rank of the stage that has the state.
const bundle::RankInfo& rank_with(const bundle::MetaInfo& info, const bundle::StateInfo& state) {
  const auto& ranges = find_port(info.profiles.front().inputs, state.input)->ranges;
  const auto has_it =
      std::ranges::find_if(ranges, [](const auto& part) { return part.has_value(); });
  return info.ranks[has_it == ranges.end() ? 0 : static_cast<std::size_t>(has_it - ranges.begin())];
}

/// Whether the model itself puts the rows of the state to their places.
bool keeps_places(const bundle::MetaInfo& info, const std::filesystem::path& dir,
                  const bundle::StateInfo& state) {
  const graph::ImportOptions how{.shapes = {},
                                 .evaluate = {},
                                 .is_native = {},
                                 .weights_may_be_absent = true,
                                 .unrolls = false};
  const std::string& file = rank_with(info, state).files.front().name;
  const graph::Graph shard = graph::load_onnx(dir / file, how);
  return graph::keeps_places(shard, {index_of(shard, shard.outputs, state.output),
                                     index_of(shard, shard.inputs, state.input)});
}

/// Finds the ports of one bundle.
class PortFinder {
 public:
  PortFinder(const bundle::MetaInfo& info, const std::filesystem::path& dir,
             const std::vector<std::string>& given)
      : info_(info), profile_(info.profiles.front()), dir_(dir), given_(given) {}

  DecoderPorts find() {
    find_ids();
    find_logits();
    for (const PortInfo& port : profile_.inputs) {
      if (!is_state(info_, port.name))
        ports_.inputs.push_back(port);
      else if (!ports_.state)
        ports_.state = port;
    }
    take("attention_mask", 2, ports_.mask);
    take("position_ids", 2, ports_.positions);
    take("cache_position", 1, ports_.cache_position);
    take("seqlens_k", std::nullopt, ports_.seqlens_k);
    take("total_sequence_length", std::nullopt, ports_.total_length);
    find_others();
    if (ports_.state)
      find_cache();
    else
      ports_.most_tokens = ports_.new_tokens() + 1;
    check_mask();
    return std::move(ports_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> why, Args&&... args) const {
    fail("{} cannot generate text: {}", dir_.string(),
         fmt::format(why, std::forward<Args>(args)...));
  }

  void find_ids() {
    const PortInfo* ids = find_port(profile_.inputs, "input_ids");
    if (ids == nullptr || !is_integer(ids->type) || ids->shape.size() != 2 ||
        graph::num_elements(ids->shape) == 0)
      refuse("it has no input 'input_ids' of batch x tokens, in int64 or int32");
    ports_.ids = *ids;
  }

  void find_logits() {
    const PortInfo* logits = find_port(profile_.outputs, "logits");
    if (logits == nullptr || !is_wide_float(logits->type))
      refuse("it has no output 'logits' of floating-point numbers");
    const Shape& shape = logits->shape;
    const bool is_of_all = shape.size() == 3 && shape[1] == ports_.new_tokens();
    const bool is_of_last =
        !info_.states.empty() && (shape.size() == 2 || (shape.size() == 3 && shape[1] == 1));
    if ((!is_of_all && !is_of_last) || shape[0] != ports_.batch() || shape.back() == 0)
      refuse(
          "its output 'logits' is {}, for input_ids of {}: batch x tokens x vocabulary is wanted",
          graph::to_string(shape), graph::to_string(ports_.ids.shape));
    ports_.logits = *logits;
  }

  bool is_given(const std::string& name) const {
    return std::ranges::find(given_, name) != given_.end();
  }

  /// Takes the input where it is there and the user gives none.
  void take(const std::string& name, std::optional<std::size_t> dimensions, std::string& to) {
    const PortInfo* port = find_port(profile_.inputs, name);
    if (port == nullptr || is_given(name)) return;
    const bool fits = !dimensions || port->shape.size() == *dimensions;
    if (!fits || !visit_type(stored_type(port->type), Counts{}, [](auto) {}))
      refuse("what its input '{}' of {} {} is to get is not known; give --input {}=FILE.npy", name,
             graph::to_string(port->shape), name_of(port->type), name);
    to = name;
  }

  void find_others() {
    std::vector<std::string> missing;
    for (const PortInfo& port : ports_.inputs) {
      const std::string& name = port.name;
      if (name == ports_.ids.name || name == ports_.mask || name == ports_.positions ||
          name == ports_.cache_position || name == ports_.seqlens_k || name == ports_.total_length)
        continue;
      ports_.other.push_back(name);
      if (!is_given(name)) missing.push_back(name);
    }
    if (!missing.empty())
      refuse("what its input{} '{}' {} to get is not known; give --input {}=FILE.npy",
             missing.size() > 1 ? "s" : "", fmt::join(missing, "', '"),
             missing.size() > 1 ? "are" : "is", fmt::join(missing, "=FILE.npy --input "));
  }

  void find_cache() {
    if (ports_.new_tokens() != 1)
      refuse("a run of it reads {} tokens, but a step is one: partition the model with 1 for them",
             ports_.new_tokens());
    ports_.cache = Cache::placed;
    for (const bundle::StateInfo& state : info_.states) {
      const auto growth = growth_of(profile_, state);
      if (!growth) continue;
      const std::int64_t rows =
          find_port(profile_.inputs, state.input)->shape[static_cast<std::size_t>(growth->dim)];
      limit(rows + 1);
      if (growth->rows != 1)
        refuse("output '{}' is {} rows longer than input '{}', for one new token", state.output,
               growth->rows, state.input);
      if (ports_.cache == Cache::placed && !keeps_places(info_, dir_, state))
        ports_.cache = Cache::appended;
    }
    if (ports_.cache == Cache::appended && (ports_.mask.empty() || ports_.positions.empty()))
      refuse(
          "it has no input '{}', so that its model counts the rows of its cache itself, of which a "
          "bundle has a fixed number; export the model with this input",
          ports_.mask.empty() ? "attention_mask" : "position_ids");
    if (!ports_.cache_position.empty() && ports_.state->shape.size() == 4)
      limit(ports_.state->shape[2]);
  }

  /// So many rows are read, and one more token comes of the last.
  void limit(std::int64_t rows) {
    ports_.most_tokens = std::min(ports_.most_tokens.value_or(rows + 1), rows + 1);
  }

  void check_mask() {
    if (ports_.mask.empty()) return;
    const Shape& shape = find_port(profile_.inputs, ports_.mask)->shape;
    const bool is_appended = ports_.cache == Cache::appended;
    if (ports_.cache == Cache::placed) limit(shape[1]);
    const std::int64_t columns = !ports_.state ? ports_.new_tokens()
                                 : is_appended ? *ports_.most_tokens - 1
                                               : shape[1];
    if (shape != Shape{ports_.batch(), columns})
      refuse("its attention_mask is {}, and {}x{} is wanted for its cache", graph::to_string(shape),
             ports_.batch(), columns);
  }

  const bundle::MetaInfo& info_;
  const bundle::ProfileInfo& profile_;
  const std::filesystem::path& dir_;
  const std::vector<std::string>& given_;
  DecoderPorts ports_;
};

/// A tensor of the port's shape with a number for each element, told by where it is.
Tensor filled(const PortInfo& port,
              const std::function<std::int64_t(std::int64_t row, std::int64_t column)>& value) {
  Tensor tensor = Tensor::zeros(port.type, port.shape);
  const std::int64_t columns = port.shape.size() < 2 ? 1 : port.shape.back();
  visit_type(stored_type(port.type), Counts{}, [&]<typename T>(T) {
    auto* to = reinterpret_cast<T*>(tensor.mutable_bytes().data());
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      to[i] = static_cast<T>(value(i / columns, i % columns));
  });
  return tensor;
}

}  // namespace

DecoderPorts decoder_ports(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
                           const std::vector<std::string>& given) {
  return PortFinder(info, bundle_dir, given).find();
}

NamedTensors decoder_inputs(const DecoderPorts& ports, const NewTokens& tokens) {
  const auto length = [&](std::int64_t row) {
    return tokens.past + std::ssize(tokens.rows[static_cast<std::size_t>(row)]);
  };
  const std::int64_t all = tokens.past + ports.new_tokens();
  const auto token = [&](std::int64_t row, std::int64_t column) {
    const auto& texts = tokens.rows[static_cast<std::size_t>(row)];
    return column < std::ssize(texts) ? texts[static_cast<std::size_t>(column)] : 0;
  };
  NamedTensors inputs;
  const auto add = [&](const std::string& name, const auto& value) {
    if (name.empty()) return;
    const PortInfo& port = *find_port(ports.inputs, name);
    inputs.emplace(name, filled(port, value));
  };
  add(ports.ids.name, token);
  add(ports.positions, [&](auto, std::int64_t column) { return tokens.past + column; });
  add(ports.cache_position, [&](std::int64_t row, auto) { return tokens.past + row; });
  add(ports.seqlens_k, [&](std::int64_t row, auto) { return length(row) - 1; });
  add(ports.total_length, [&](auto, auto) { return all; });
  if (ports.mask.empty()) return inputs;
  const std::int64_t columns = find_port(ports.inputs, ports.mask)->shape[1];
  const std::int64_t first_new =
      ports.cache == Cache::appended ? columns - ports.new_tokens() : tokens.past;
  add(ports.mask, [&](std::int64_t row, std::int64_t column) {
    const bool is_past = column < tokens.past;
    const bool is_new = column >= first_new && column - first_new < length(row) - tokens.past;
    return std::int64_t{is_past || is_new};
  });
  return inputs;
}

std::vector<float> scores_of(const DecoderPorts& ports, const Tensor& logits, std::int64_t row,
                             std::int64_t index) {
  const Shape& shape = logits.shape();
  const std::int64_t rows = shape.size() == 3 ? shape[1] : 1;
  const std::int64_t first = (row * rows + std::min(index, rows - 1)) * ports.vocabulary();
  std::vector<float> scores(static_cast<std::size_t>(ports.vocabulary()));
  visit_type(logits.type(), AllFloats{}, [&]<typename T>(T) {
    const auto values = logits.values<T>().subspan(static_cast<std::size_t>(first), scores.size());
    std::ranges::transform(values, scores.begin(),
                           [](T value) { return static_cast<float>(widened(value)); });
  });
  return scores;
}

}  // namespace autopar::runtime
