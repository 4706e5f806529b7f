#pragma once

#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// The sequences of tensors that a model makes and takes apart again. While it is read each is a
/// list of values, and an id below no_value stands for it where a value's id would stand; of none
/// of them is anything left in the graph.
class Sequences {
 public:
  static bool is_sequence(ValueId id) { return id < no_value; }

  ValueId add(std::vector<ValueId> elements) {
    lists_.push_back(std::move(elements));
    return no_value - static_cast<ValueId>(lists_.size());
  }
  std::vector<ValueId> elements(ValueId sequence) const {
    return lists_.at(static_cast<std::size_t>(no_value - sequence - 1));
  }

 private:
  std::vector<std::vector<ValueId>> lists_;
};

}  // namespace autopar::graph
