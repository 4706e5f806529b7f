#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "assignment/deadline.h"
#include "search/stages/stage_facts.h"

namespace autopar::search {

/// By value of a block's graph: whether other layers read it, too.
using SharedFlags = std::vector<bool>;

/// Lower bounds of stages by their parts, for each view.
///
/// A block is a run of layers as a problem of its own, without limits, in which the tensors that
/// others make or read, too, cost nothing: whoever reads them has them as wanted. A plan of a
/// stage, looked at block by block, is a choice of each block's problem, and no cost of it is
/// counted twice: costs of nodes and edges are not negative, an edge between two blocks is left
/// out, and so is all that stored tensors cost which several blocks read. So the sum of the blocks'
/// optima is a bound. In the first block what arrives is stored in a spec in which it can be
/// received, and brought to those that are read, which only the readers within the block are asked
/// to pay.
///
/// Where a stage's weights are limited to a share of them, which is a sum over its weights, they
/// have a price in all blocks, and what the block's own weights may take is taken off again (a
/// Lagrangian relaxation: bounds hold for every price, and each view has one).
///
/// This needs that an operator has no strategy in the stage that it lacks in the block, which could
/// differ in what is kept partial (partial_flow.h). Stages in which it differs have no such bound
/// (StageFacts::flows_alike).
///
/// Keeps a reference to the facts.
class BlockBounds {
 public:
  explicit BlockBounds(const StageFacts& facts) : facts_(facts), views_(facts.views.size()) {}

  /// `-impossible` where none is known.
  assignment::Cost of(int view, int begin, int end) const;
  /// Blocks of up to 2^level layers are in the view's bounds; -1 where none are.
  int level(int view) const { return views_[view].level; }
  /// Whether few blocks of 2^level layers differ: the bounds of many are no less work than the
  /// search of stages.
  bool is_worth_refining(int view, int level) const;
  /// Solves the blocks of 2^level layers. `levels`: by view.
  void refine(const std::map<int, int>& levels, const assignment::Deadline& deadline);

 private:
  struct View {
    double price = 0;  ///< of a byte of weights
    int level = -1;
    std::vector<assignment::Cost> inner{};  ///< by StageFacts::place: as a part of any stage
    std::vector<assignment::Cost> first{};  ///< as the first part of a stage
  };
  /// Blocks with the same key have the same bound: class, view, is_first, and what is shared.
  using Key = std::tuple<int, int, bool, SharedFlags>;

  View begun(int view, double seconds_left) const;
  void compose(View& view) const;

  const StageFacts& facts_;
  std::vector<View> views_;
  std::map<Key, assignment::Cost> solved_;
};

}  // namespace autopar::search
