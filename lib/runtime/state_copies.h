#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// Copies a graph's states from its outputs to its inputs, within the device's memory.
class StateCopies {
 public:
  StateCopies() = default;
  /// `rows_stay`: of each state whether it keeps_places.
  StateCopies(const graph::Graph& graph, const std::vector<bool>& rows_stay,
              std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              Device& device);

  /// See Executable::hand_on_states.
  void hand_on(std::int64_t first_row, int step) const;

 private:
  /// Where the first copied element lies, and by how much further it goes a row.
  struct Place {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::int64_t row_bytes = 0;
    std::int64_t rows = 0;  ///< of a step; 0 for a state whose rows keep their places
  };

  std::vector<Place> places_;
  std::unique_ptr<StridedCopies> copies_;
  void* queue_ = nullptr;
};

}  // namespace autopar::runtime
