#include "runtime/decoding/decoder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/problems.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/onnx_overview.h"
#include "graph/state.h"
#include "runtime/held_states.h"
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
                                 .unrolls = false,
                                 .limits = graph::shard_limits};
  const std::string& file = rank_with(info, state).files.front().name;
  const graph::Graph shard = graph::load_onnx(dir / file, how);
  return graph::keeps_places(shard, {index_of(shard, shard.outputs, state.output),
                                     index_of(shard, shard.inputs, state.input)});
}

/// The one whose runs read the fewest tokens.
const bundle::ProfileInfo& profile_of_steps(const bundle::MetaInfo& info) {
  return *std::ranges::min_element(info.profiles, {}, [](const bundle::ProfileInfo& profile) {
    const PortInfo* ids = find_port(profile.inputs, "input_ids");
    return ids == nullptr ? 0 : graph::num_elements(ids->shape);
  });
}

/// Finds the ports of one bundle.
class PortFinder {
 public:
  PortFinder(const bundle::MetaInfo& info, const std::filesystem::path& dir,
             const std::vector<std::string>& given)
      : info_(info),
        profile_(profile_of_steps(info)),
        symbols_(port_symbols(info, dir)),
        dir_(dir),
        given_(given) {}

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
    ports_.reads_any_number = is_open(ports_.ids.name, 1);
    ports_.scores_all = ports_.logits.shape.size() == 3 &&
                        (ports_.new_tokens() > 1 ? ports_.logits.shape[1] == ports_.new_tokens()
                                                 : is_open(ports_.logits.name, 1));
    ports_.rows = ports_.new_tokens();
    if (ports_.state) find_cache();
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
    if (ports_.new_tokens() != 1 && !ports_.reads_any_number)
      refuse("a run of it reads {} tokens, but a step is one: partition the model with 1 for them",
             ports_.new_tokens());
    ports_.cache = Cache::by_place;
    ports_.rows = std::numeric_limits<std::int64_t>::max();
    ports_.has_any_rows = true;
    for (const bundle::StateInfo& state : info_.states) find_growth(state);
    if (ports_.cache == Cache::masked && (ports_.mask.empty() || ports_.positions.empty()))
      find_exact();
    if (ports_.cache == Cache::by_place) find_places();
  }

  void find_growth(const bundle::StateInfo& state) {
    const auto growth = growth_of(profile_, state);
    if (!growth) return;
    const auto dim = static_cast<std::size_t>(growth->dim);
    if (growth->rows != ports_.new_tokens())
      refuse("output '{}' is {} rows longer than input '{}', for {} new tokens", state.output,
             growth->rows, state.input, ports_.new_tokens());
    ports_.rows = std::min(ports_.rows, find_port(profile_.inputs, state.input)->shape[dim]);
    ports_.has_any_rows = ports_.has_any_rows && is_open(state.input, dim);
    if (ports_.cache == Cache::masked) return;
    const bool is_placed = keeps_places(info_, dir_, state);
    ports_.cache = !is_placed                      ? Cache::masked
                   : ports_.cache_position.empty() ? Cache::by_text
                                                   : Cache::by_place;
  }

  /// The model counts the rows of its cache itself.
  void find_exact() {
    if (!ports_.has_any_rows)
      refuse(
          "it has no input '{}', so that its model counts the rows of its cache itself, of which "
          "the bundle has a fixed number; export the model with this input",
          ports_.mask.empty() ? "attention_mask" : "position_ids");
    ports_.cache = Cache::exact;
  }

  /// The rows of a cache that does not grow.
  void find_places() {
    ports_.has_any_rows = false;
    if (!ports_.cache_position.empty() && ports_.state->shape.size() == 4)
      ports_.rows = std::min(ports_.rows, ports_.state->shape[2]);
    if (!ports_.mask.empty())
      ports_.rows = std::min(ports_.rows, find_port(profile_.inputs, ports_.mask)->shape[1]);
  }

  void check_mask() {
    if (ports_.mask.empty()) return;
    const Shape& shape = find_port(profile_.inputs, ports_.mask)->shape;
    const std::int64_t columns = ports_.cache == Cache::none ? ports_.new_tokens()
                                 : ports_.cache == Cache::by_place
                                     ? shape[1]
                                     : ports_.rows + ports_.new_tokens();
    if (shape != Shape{ports_.batch(), columns})
      refuse("its attention_mask is {}, and {}x{} is wanted for its cache", graph::to_string(shape),
             ports_.batch(), columns);
  }

  /// Whether a run may have any extent there.
  bool is_open(const std::string& port, std::size_t dim) const {
    const auto dims = symbols_.find(port);
    if (dims == symbols_.end() || dim >= dims->second.size()) return false;
    return graph::is_open(dims->second[dim]);
  }

  const bundle::MetaInfo& info_;
  const bundle::ProfileInfo& profile_;
  PortSymbols symbols_;
  const std::filesystem::path& dir_;
  const std::vector<std::string>& given_;
  DecoderPorts ports_;
};

/// A tensor with a number for each element, told by where it is.
Tensor filled(DataType type, Shape shape,
              const std::function<std::int64_t(std::int64_t row, std::int64_t column)>& value) {
  const std::int64_t columns = shape.size() < 2 ? 1 : shape.back();
  Tensor tensor = Tensor::zeros(type, std::move(shape));
  visit_type(stored_type(type), Counts{}, [&]<typename T>(T) {
    auto* to = reinterpret_cast<T*>(tensor.mutable_bytes().data());
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      to[i] = static_cast<T>(value(i / columns, i % columns));
  });
  return tensor;
}

/// Which columns of a mask stand for a token of the text.
bool counts(const DecoderPorts& ports, const NewTokens& tokens, std::int64_t row,
            std::int64_t column) {
  const auto r = static_cast<std::size_t>(row);
  const std::int64_t own = std::ssize(tokens.rows[r]);
  if (ports.cache == Cache::by_text) return column < tokens.read[r] + own;
  const std::int64_t first_new = ports.cache == Cache::by_place ? tokens.made : tokens.past;
  if (column >= first_new) return column - first_new < own;
  const bool is_padding = column >= tokens.first[r] && column < tokens.made_by_first;
  return column < tokens.made && !is_padding;
}

}  // namespace

bool DecoderPorts::may_pad() const {
  if (!scores_all || !reads_any_number) return false;
  if (cache == Cache::by_text) return !mask.empty() || !seqlens_k.empty();
  return (cache == Cache::masked || cache == Cache::by_place) && !mask.empty() &&
         !positions.empty();
}

DecoderPorts decoder_ports(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
                           const std::vector<std::string>& given) {
  return PortFinder(info, bundle_dir, given).find();
}

NamedTensors decoder_inputs(const DecoderPorts& ports, const NewTokens& tokens) {
  const auto text = [&](std::int64_t row) -> const std::vector<std::int64_t>& {
    return tokens.rows[static_cast<std::size_t>(row)];
  };
  const auto read = [&](std::int64_t row) { return tokens.read[static_cast<std::size_t>(row)]; };
  NamedTensors inputs;
  const auto add = [&](const std::string& name, const Shape& shape, const auto& value) {
    if (name.empty()) return;
    inputs.emplace(name, filled(find_port(ports.inputs, name)->type, shape, value));
  };
  const auto shape_of = [&](const std::string& name) {
    return name.empty() ? Shape() : find_port(ports.inputs, name)->shape;
  };
  const Shape of_tokens{ports.batch(), tokens.columns};
  add(ports.ids.name, of_tokens, [&](std::int64_t row, std::int64_t column) {
    return column < std::ssize(text(row)) ? text(row)[static_cast<std::size_t>(column)] : 0;
  });
  add(ports.positions, of_tokens, [&](std::int64_t row, std::int64_t column) {
    return read(row) + std::min(column, std::ssize(text(row)) - 1);  // no table ends before padding
  });
  add(ports.cache_position, {tokens.columns},
      [&](std::int64_t row, auto) { return tokens.made + row; });
  const auto length = [&](std::int64_t row) { return read(row) + std::ssize(text(row)); };
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < ports.batch(); ++row) longest = std::max(longest, length(row));
  add(ports.seqlens_k, shape_of(ports.seqlens_k),
      [&](std::int64_t row, auto) { return length(row) - 1; });
  add(ports.total_length, shape_of(ports.total_length), [&](auto, auto) { return longest; });
  if (ports.mask.empty()) return inputs;
  const std::int64_t columns =
      ports.cache == Cache::by_place ? shape_of(ports.mask)[1] : tokens.past + tokens.columns;
  add(ports.mask, {ports.batch(), columns}, [&](std::int64_t row, std::int64_t column) {
    return std::int64_t{counts(ports, tokens, row, column)};
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
