#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/memo.h"

namespace autopar::assignment {

/// An edge seen from one of its ends: the costs of its own strategies with those of the other end.
struct HalfEdge {
  CostTable table;
  std::size_t own = 0;
  std::size_t others = 0;
  bool is_row = true;  ///< own strategies are the table's rows

  std::size_t own_step() const { return is_row ? others : 1; }
  std::size_t other_step() const { return is_row ? 1 : own; }
};

/// The steps of presolve (presolve.h) as functions of costs alone. Their answers are remembered up
/// to a limit of memory, so that isomorphic parts of a problem, such as a model's repeated layers,
/// are reduced once.
class Reductions {
 public:
  explicit Reductions(const SolverParameters::Presolve& parameters = {})
      : parameters_(parameters) {}

  /// The one table that is kept for these costs.
  CostTable unique(const CostTable& table) { return is_full() ? table : pool_.unique(table); }

  /// A table as the sum of its row minima, the column minima after that, and the rest.
  struct Normalised {
    std::vector<Cost> row_minima;
    std::vector<Cost> column_minima;
    CostTable rest;
    bool is_nothing = false;  ///< the rest is 0 everywhere
  };
  std::shared_ptr<const Normalised> normalise(const CostTable& table, std::size_t columns);

  /// The sum of two parallel edges, in the order of the first.
  CostTable sum(const HalfEdge& edge, const HalfEdge& parallel);

  /// The table without the own strategies that are marked.
  CostTable remove(const HalfEdge& edge, const std::vector<char>& is_removed);

  /// By strategy, the one that dominates it (Goldstein 1994): at least as good whatever the
  /// neighbours choose. Itself where none does; -1 where it is impossible. `usages` are empty where
  /// they do not matter; `is_possible` is by edge and the other end's strategy.
  std::shared_ptr<const std::vector<int>> dominators(
      const std::vector<Cost>& costs, const std::vector<std::int64_t>& usages,
      const std::vector<HalfEdge>& edges, const std::vector<std::vector<char>>& is_possible);

  /// A node of degree 1 or 2 eliminated: by the neighbours' strategies, row-major, the node's least
  /// cost and the strategy that has it.
  struct Eliminated {
    CostTable costs;
    std::vector<int> answers;
  };
  std::shared_ptr<const Eliminated> eliminate(const std::vector<Cost>& costs,
                                              const std::vector<HalfEdge>& edges);
  /// Sums of costs that eliminations have compared so far.
  double compared_sums() const { return compared_sums_; }

 private:
  bool is_full() const { return pool_.cells() > parameters_.most_remembered_cells; }
  template <typename Answer>
  std::shared_ptr<const Answer> remembered(Memo<Answer>& memo, const MemoKey& key,
                                           const auto& make) {
    return is_full() ? std::make_shared<const Answer>(make()) : memo.get(key, make);
  }

  SolverParameters::Presolve parameters_;
  double compared_sums_ = 0;
  TablePool pool_;
  Memo<Normalised> normalised_;
  Memo<CostTable> sums_;
  Memo<CostTable> rests_;
  Memo<std::vector<int>> dominators_;
  Memo<Eliminated> eliminated_;
};

}  // namespace autopar::assignment
