#include "runtime/state_copies.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/state.h"

namespace autopar::runtime {

namespace {

/// Where the first copied element lies, and by how much further it goes a row.
struct Place {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;  ///< of a step; 0 for a state whose rows keep their places
};

}  // namespace

StateCopies state_copies(const graph::Graph& graph, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs, Device& device) {
  std::vector<Place> all;
  std::vector<CopyLayout> layouts;
  for (const graph::State& state : graph.states) {
    const TensorView& from = outputs[state.output];
    const TensorView& to = inputs[state.input];
    const std::string& name = graph.value(graph.outputs[state.output]).name;
    const auto growth =
        graph::growth_of(name, from.shape, graph.value(graph.inputs[state.input]).name, to.shape);
    if (graph::bits_of(from.type) % 8 != 0)
      fail("state '{}': elements of {} do not begin at bytes, and are not handed on", name,
           name_of(from.type));
    const auto element = static_cast<int>(graph::bytes_of(from.type, 1));
    CopyLayout layout{from.shape, row_major_strides(from.shape), row_major_strides(to.shape),
                      element};
    Place place{from.data, to.data};
    if (growth && graph::keeps_places(graph, state)) {
      layout.shape = to.shape;
    } else if (growth) {
      const auto dim = static_cast<std::size_t>(growth->dim);
      place.rows = growth->rows;
      place.row_bytes = layout.out_strides[dim] * element;
      place.from += (from.shape[dim] - growth->rows) * layout.in_strides[dim] * element;
      layout.shape[dim] = growth->rows;
    }
    layouts.push_back(std::move(layout));
    all.push_back(place);
  }
  const std::shared_ptr<StridedCopies> copies = device.make_strided_copies(std::move(layouts));
  return [copies, all, queue = device.queue(Queue::computation)](std::int64_t first_row, int step) {
    std::vector<CopyPlace> places;
    for (const Place& place : all) {
      const std::int64_t row = place.rows == 0 ? 0 : first_row + step * place.rows;
      places.push_back({place.from, place.to + row * place.row_bytes});
    }
    copies->run(places, queue);
  };
}

}  // namespace autopar::runtime
