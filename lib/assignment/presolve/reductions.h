#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/memo.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// An edge from one of its ends: the costs of that end's own strategies beside the other end's.
struct HalfEdge {
  CostTable table;
  std::size_t own = 0;
  std::size_t others = 0;
  bool is_row = true;  ///< own strategies are the table's rows

  std::size_t own_step() const { return is_row ? others : 1; }
  std::size_t other_step() const { return is_row ? 1 : own; }
};

/// The steps of presolve (presolve.h) as functions of costs alone, so that isomorphic parts of a
/// problem, such as a model's repeated layers, are reduced once: what is asked again is answered
/// from memory, as long as that is not too much of it.
class Reductions {
 public:
  explicit Reductions(const SolverParameters::Presolve& parameters = {})
      : parameters_(parameters) {}

  /// The same costs, the same table.
  CostTable unique(const CostTable& table);

  /// A table as the sum of what its rows cost at least, its columns after that, and the rest.
  struct Normalised {
    std::vector<Cost> row_minima;
    std::vector<Cost> column_minima;
    CostTable rest;
    bool is_nothing = false;  ///< the rest is 0
  };
  std::shared_ptr<const Normalised> normalise(const CostTable& table, std::size_t columns);

  /// The sum of an edge and a parallel one, in the first one's order.
  CostTable sum(const HalfEdge& edge, const HalfEdge& parallel);

  /// What is left when marked ones of the own strategies are removed.
  CostTable remove(const HalfEdge& edge, const std::vector<char>& is_removed);

  /// By strategy, another one that is at least as good whatever the neighbours choose (Goldstein
  /// 1994); itself where there is none; -1 where it is impossible. `usages` are empty where they do
  /// not matter; `is_possible` is by edge and the other end's strategy.
  std::shared_ptr<const std::vector<int>> dominators(
      const std::vector<Cost>& costs, const std::vector<std::int64_t>& usages,
      const std::vector<HalfEdge>& edges, const std::vector<std::vector<char>>& is_possible);

  /// What is left of a node with so many neighbours: by their strategies, the least that it costs
  /// and its strategy then.
  struct Eliminated {
    CostTable costs;
    std::vector<int> answers;
  };
  std::shared_ptr<const Eliminated> eliminate(const std::vector<Cost>& costs, const HalfEdge& edge);
  std::shared_ptr<const Eliminated> eliminate(const std::vector<Cost>& costs, const HalfEdge& rows,
                                              const HalfEdge& columns);

 private:
  bool is_full() const;
  template <typename Answer, typename Make>
  std::shared_ptr<const Answer> remembered(Memo<Answer>& memo, const MemoKey& key,
                                           const Make& make);

  SolverParameters::Presolve parameters_;
  TablePool pool_;
  Memo<Normalised> normalised_;
  Memo<CostTable> sums_;
  Memo<CostTable> rests_;
  Memo<std::vector<int>> dominators_;
  Memo<Eliminated> eliminated_;
};

}  // namespace autopar::assignment
