#pragma once

#include "graph/onnx/import/graph_builder.h"

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

/// The graphs that are being built while a model is read: its own, and of the loops that stay nodes
/// the bodies, each within the one before. What a body reads of the graphs around it is *captured*:
/// a constant by a copy that shares its data, any other value by an input.
class BodyFrames {
 public:
  explicit BodyFrames(Sequences& sequences) : sequences_(sequences) { frames_.emplace_back(); }

  /// The builder of the innermost graph.
  GraphBuilder& builder() { return frames_.back().builder; }
  const GraphBuilder& builder() const { return frames_.back().builder; }
  GraphBuilder& builder(int depth) { return frames_[static_cast<std::size_t>(depth)].builder; }
  int depth() const { return static_cast<int>(frames_.size()) - 1; }

  /// The value of the graph at this depth as the innermost graph has it.
  ValueId bring_in(ValueId id, int depth);

  /// A body and what it captures, as values of the graph around it.
  struct Finished {
    Graph body;
    std::vector<ValueId> captured;
  };

  /// A body in the making, for as long as it lives and is not finished.
  class Body {
   public:
    explicit Body(BodyFrames& frames);
    ~Body();
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

    /// Its inputs are those added so far, then what of the captured is read; constants of a KiB or
    /// more are captured, too.
    Finished finish(const std::vector<ValueId>& outputs);

   private:
    BodyFrames& frames_;
    UniqueNames::Suffixes value_suffixes_;  ///< before it
    UniqueNames::Suffixes node_suffixes_;
    bool is_finished_ = false;
  };

 private:
  struct Frame {
    GraphBuilder builder;
    std::map<ValueId, ValueId> captured;  ///< by value of the graph around it
  };

  ValueId capture(ValueId outer, std::size_t into);

  Sequences& sequences_;
  std::vector<Frame> frames_;
};

}  // namespace autopar::graph
