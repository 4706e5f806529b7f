#include "runtime/state_buffers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/arena.h"
#include "graph/state.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Shape;

/// The only dimension along which a graph's input and the buffer differ; nullopt where there is
/// none.
std::optional<std::size_t> differing_dim(const StateBuffer& state, const graph::Value& input) {
  const auto refuse = [&] {
    fail("input '{}' is {} of {}, but the state it has is {} of {}", input.name,
         graph::to_string(input.shape), name_of(input.type), graph::to_string(state.shape),
         name_of(state.type));
  };
  if (input.type != state.type || input.shape.size() != state.shape.size()) refuse();
  std::optional<std::size_t> dim;
  for (std::size_t d = 0; d < state.shape.size(); ++d) {
    if (input.shape[d] == state.shape[d]) continue;
    if (dim || input.shape[d] > state.shape[d]) refuse();
    dim = d;
  }
  return dim;
}

/// Where copied elements lie, in both tensors, if the first row goes to row 0.
struct Rows {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t row_bytes = 0;  ///< from one row of `to` to the next; 0 where rows keep their places
  std::int64_t count = 0;
  std::int64_t capacity = 0;
  std::int64_t* written = nullptr;  ///< rows before them; null where rows keep their places
  std::string name;
};

/// What an output gives the buffer: all of it, or its last rows.
std::pair<Rows, CopyLayout> rows_of_output(const Graph& graph, const graph::State& state,
                                           const TensorView& output, const TensorView& buffer,
                                           std::optional<std::size_t> differing) {
  const graph::Value& from = graph.value(graph.outputs[state.output]);
  const graph::Value& input = graph.value(graph.inputs[state.input]);
  const auto growth = graph::growth_of(from.name, from.shape, input.name, input.shape);
  const auto dim = growth ? std::optional(static_cast<std::size_t>(growth->dim)) : differing;
  if (growth && differing && *differing != *dim)
    fail("output '{}' grows along dimension {}, but its state has place for more along {}",
         from.name, *dim, *differing);
  const auto element = static_cast<int>(graph::bytes_of(output.type, 1));
  CopyLayout layout{output.shape, row_major_strides(output.shape), row_major_strides(buffer.shape),
                    element};
  Rows rows{.from = output.data, .to = buffer.data, .name = from.name};
  if (!dim) return {rows, layout};
  rows.capacity = buffer.shape[*dim];
  if (!growth || graph::keeps_places(graph, state)) {
    layout.shape[*dim] = rows.count = std::min(output.shape[*dim], rows.capacity);
  } else {
    layout.shape[*dim] = rows.count = growth->rows;
    rows.row_bytes = layout.out_strides[*dim] * element;
    rows.from += (output.shape[*dim] - growth->rows) * layout.in_strides[*dim] * element;
  }
  return {rows, layout};
}

}  // namespace

StateBuffers::StateBuffers(Device& device, std::vector<StateBuffer> states)
    : device_(device), states_(std::move(states)) {
  for (const StateBuffer& state : states_) {
    if (graph::bits_of(state.type) % 8 != 0)
      fail("state '{}': elements of {} do not begin at bytes, and are not handed on", state.output,
           name_of(state.type));
    offsets_.push_back(bytes_);
    bytes_ += graph::aligned(graph::bytes_of(state.type, graph::num_elements(state.shape)));
  }
  memory_ = device_.allocate(bytes_);
  begin(0);
}

void StateBuffers::begin(std::int64_t rows) {
  rows_.assign(states_.size(), rows);
  device_.fill(memory_.get(), std::byte{0}, bytes_, device_.queue(Queue::computation));
}

TensorView StateBuffers::view(const StateBuffer& state) const {
  const auto i = static_cast<std::size_t>(&state - states_.data());
  return {state.type, state.shape, memory_.get() + offsets_[i]};
}

graph::Tensor StateBuffers::read(std::size_t state) const {
  const TensorView from = view(states_.at(state));
  graph::Tensor tensor = graph::Tensor::zeros(from.type, from.shape);
  device_.read(tensor.mutable_bytes(), from.data);
  return tensor;
}

void StateBuffers::write(std::size_t state, const graph::Tensor& tensor) {
  const TensorView to = view(states_.at(state));
  require(tensor.type() == to.type && tensor.shape() == to.shape, "a state keeps its shape");
  device_.write(to.data, (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).bytes());
}

const StateBuffer* StateBuffers::find(const std::string& input) const {
  const auto found = std::ranges::find(states_, input, &StateBuffer::input);
  return found == states_.end() ? nullptr : &*found;
}

std::byte* StateBuffers::place_of(const Graph& graph, graph::ValueId input) const {
  const graph::Value& value = graph.value(input);
  const StateBuffer* state = find(value.name);
  const bool is_buffer = state != nullptr && !differing_dim(*state, value);
  return is_buffer ? view(*state).data : nullptr;
}

StateBuffers::Copies StateBuffers::copies(const Graph& graph, std::span<const TensorView> inputs,
                                          std::span<const TensorView> outputs) {
  std::vector<Rows> to_buffers;
  std::vector<Rows> to_inputs;
  std::vector<CopyLayout> to_buffer_layouts;
  std::vector<CopyLayout> to_input_layouts;
  for (const graph::State& state : graph.states) {
    const graph::Value& input = graph.value(graph.inputs[state.input]);
    const StateBuffer* own = find(input.name);
    if (own == nullptr) fail("input '{}' is a state, but the session has none of it", input.name);
    const TensorView buffer = view(*own);
    const auto differing = differing_dim(*own, input);
    auto [rows, layout] = rows_of_output(graph, state, outputs[state.output], buffer, differing);
    if (rows.row_bytes > 0) rows.written = &rows_[static_cast<std::size_t>(own - states_.data())];
    to_buffers.push_back(std::move(rows));
    to_buffer_layouts.push_back(std::move(layout));
    if (!differing || graph::num_elements(input.shape) == 0) continue;
    to_inputs.push_back({.from = buffer.data, .to = inputs[state.input].data, .name = input.name});
    to_input_layouts.push_back({input.shape, row_major_strides(buffer.shape),
                                row_major_strides(input.shape),
                                static_cast<int>(graph::bytes_of(input.type, 1))});
  }
  void* const queue = device_.queue(Queue::computation);
  const std::shared_ptr<StridedCopies> hand_on =
      device_.make_strided_copies(std::move(to_buffer_layouts));
  const std::shared_ptr<StridedCopies> fill =
      device_.make_strided_copies(std::move(to_input_layouts));
  const auto hand_on_rows = [copies = hand_on, all = to_buffers, queue] {
    std::vector<CopyPlace> places;
    for (const Rows& rows : all) {
      const std::int64_t first = rows.written == nullptr ? 0 : *rows.written;
      if (first < 0 || first + rows.count > rows.capacity)
        fail("state '{}' has place for {} rows, but rows {} to {} are to be written", rows.name,
             rows.capacity, first, first + rows.count - 1);
      places.push_back({rows.from, rows.to + first * rows.row_bytes});
    }
    for (const Rows& rows : all)
      if (rows.written != nullptr) *rows.written += rows.count;
    if (!places.empty()) copies->run(places, queue);
  };
  const auto fill_inputs = [copies = fill, all = to_inputs, queue] {
    std::vector<CopyPlace> places;
    for (const Rows& rows : all) places.push_back({rows.from, rows.to});
    if (!places.empty()) copies->run(places, queue);
  };
  return {hand_on_rows, fill_inputs};
}

}  // namespace autopar::runtime
