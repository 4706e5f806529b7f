#include "assignment/presolve/reductions.h"

#include <algorithm>

#include "base/simd_clones.h"

namespace autopar::assignment {

namespace {

constexpr int is_impossible = -1;

MemoKey& add(const HalfEdge& edge, MemoKey& key) {
  return key.add(edge.table).add(edge.own).add(edge.is_row ? 1 : 0);
}

/// The minimum of each line, which is subtracted from the line's possible costs.
std::vector<Cost> take_minima(std::vector<Cost>& costs, std::size_t lines, std::size_t step,
                              std::size_t others, std::size_t other_step) {
  std::vector<Cost> minima(lines, impossible);
  for (std::size_t s = 0; s < lines; ++s) {
    Cost* line = costs.data() + s * step;
    for (std::size_t t = 0; t < others; ++t) minima[s] = std::min(minima[s], line[t * other_step]);
    if (minima[s] >= impossible || minima[s] == 0) continue;
    for (std::size_t t = 0; t < others; ++t) {
      Cost& cost = line[t * other_step];
      if (cost < impossible) cost -= minima[s];
    }
  }
  return minima;
}

/// The edge's costs with rows by the other end's strategy.
CostTable by_others(const HalfEdge& edge) {
  if (!edge.is_row) return edge.table;
  std::vector<Cost> turned(edge.table.size());
  const Cost* costs = edge.table.begin();
  for (std::size_t s = 0; s < edge.own; ++s) {
    for (std::size_t t = 0; t < edge.others; ++t) {
      turned[t * edge.own + s] = costs[s * edge.others + t];
    }
  }
  return turned;
}

/// Costs are moderate, so that sums of a few do not overflow.
AUTOPAR_SIMD_CLONES
Cost least_sum(const Cost* a, const Cost* b, std::size_t count) {
  Cost least = impossible;
  for (std::size_t s = 0; s < count; ++s) least = std::min(least, a[s] + b[s]);
  return least;
}

/// The minimum of the sum of two rows, at most `impossible`, and its place.
std::pair<Cost, std::size_t> least_sum(const std::vector<Cost>& a, const Cost* b) {
  const Cost least = least_sum(a.data(), b, a.size());
  std::size_t best = 0;
  while (best + 1 < a.size() && std::min(impossible, a[best] + b[best]) != least) ++best;
  return {least, best};
}

/// True where changing `worse` to `better` never costs more.
bool dominates(const std::vector<Cost>& costs, const std::vector<HalfEdge>& edges,
               const std::vector<std::vector<char>>& is_possible, std::size_t better,
               std::size_t worse) {
  Cost saved = costs[worse] - costs[better];  // a lower bound
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const HalfEdge& edge = edges[k];
    const Cost* worse_costs = edge.table.begin() + worse * edge.own_step();
    const Cost* better_costs = edge.table.begin() + better * edge.own_step();
    Cost least = impossible;
    for (std::size_t t = 0; t < edge.others; ++t) {
      const Cost cost = worse_costs[t * edge.other_step()];
      if (cost >= impossible || !is_possible[k][t]) continue;
      const Cost instead = better_costs[t * edge.other_step()];
      if (instead >= impossible) return false;
      least = std::min(least, cost - instead);
    }
    if (least >= impossible) return true;  // the worse one has no partner
    saved += least;
  }
  return saved >= 0;
}

/// Where one strategy's costs over an edge are least and largest; -1 where it has no partner.
struct Extremes {
  std::ptrdiff_t least = -1;
  std::ptrdiff_t largest = -1;
};

/// By edge and own strategy. Other ends' strategies that are impossible are left out.
std::vector<std::vector<Extremes>> extremes_of(const std::vector<HalfEdge>& edges,
                                               const std::vector<std::vector<char>>& is_possible) {
  std::vector<std::vector<Extremes>> result;
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const HalfEdge& edge = edges[k];
    auto& of_edge = result.emplace_back(edge.own);
    for (std::size_t s = 0; s < edge.own; ++s) {
      Cost least = impossible;
      Cost largest = -impossible;
      for (std::size_t t = 0; t < edge.others; ++t) {
        const Cost cost = edge.table.begin()[s * edge.own_step() + t * edge.other_step()];
        if (!is_possible[k][t]) continue;
        if (cost < least) of_edge[s].least = static_cast<std::ptrdiff_t>(t);
        if (cost > largest) of_edge[s].largest = static_cast<std::ptrdiff_t>(t);
        least = std::min(least, cost);
        largest = std::max(largest, cost);
      }
    }
  }
  return result;
}

/// False where `dominates` would be, as a look at two neighbours' strategies an edge tells of most.
bool may_dominate(const std::vector<Cost>& costs, const std::vector<HalfEdge>& edges,
                  const std::vector<std::vector<Extremes>>& extremes, std::size_t better,
                  std::size_t worse) {
  Cost saved = costs[worse] - costs[better];  // an upper bound
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const HalfEdge& edge = edges[k];
    if (extremes[k][worse].least < 0) return true;
    Cost least = impossible;
    for (const std::ptrdiff_t t : {extremes[k][worse].least, extremes[k][better].largest}) {
      const std::size_t place = static_cast<std::size_t>(t) * edge.other_step();
      const Cost cost = edge.table.begin()[worse * edge.own_step() + place];
      if (cost >= impossible) continue;
      const Cost instead = edge.table.begin()[better * edge.own_step() + place];
      if (instead >= impossible) return false;
      least = std::min(least, cost - instead);
    }
    saved += least;
  }
  return saved >= 0;
}

}  // namespace

std::shared_ptr<const Reductions::Normalised> Reductions::normalise(const CostTable& table,
                                                                    std::size_t columns) {
  return remembered(normalised_, MemoKey().add(table).add(columns), [&] {
    const std::size_t rows = table.size() / columns;
    std::vector<Cost> costs(table.begin(), table.end());
    Normalised result;
    result.row_minima = take_minima(costs, rows, columns, columns, 1);
    result.column_minima = take_minima(costs, columns, 1, rows, columns);
    result.is_nothing = std::ranges::all_of(costs, [](Cost cost) { return cost == 0; });
    result.rest = unique(std::move(costs));
    return result;
  });
}

CostTable Reductions::sum(const HalfEdge& edge, const HalfEdge& parallel) {
  MemoKey key;
  add(edge, key);
  add(parallel, key);
  return *remembered(sums_, key, [&] {
    std::vector<Cost> costs(edge.table.begin(), edge.table.end());
    for (std::size_t s = 0; s < edge.own; ++s) {
      for (std::size_t t = 0; t < edge.others; ++t) {
        Cost& cost = costs[s * edge.own_step() + t * edge.other_step()];
        cost = plus(cost, parallel.table[s * parallel.own_step() + t * parallel.other_step()]);
      }
    }
    return unique(std::move(costs));
  });
}

CostTable Reductions::remove(const HalfEdge& edge, const std::vector<char>& is_removed) {
  MemoKey key;
  return *remembered(rests_, add(edge, key).add(is_removed), [&] {
    const std::size_t columns = edge.is_row ? edge.others : edge.own;
    std::vector<Cost> costs;
    costs.reserve(edge.table.size());
    for (std::size_t c = 0; c < edge.table.size(); ++c) {
      if (!is_removed[edge.is_row ? c / columns : c % columns]) costs.push_back(edge.table[c]);
    }
    return unique(std::move(costs));
  });
}

std::shared_ptr<const std::vector<int>> Reductions::dominators(
    const std::vector<Cost>& costs, const std::vector<std::int64_t>& usages,
    const std::vector<HalfEdge>& edges, const std::vector<std::vector<char>>& is_possible) {
  MemoKey key;
  key.add(costs).add(usages);
  for (std::size_t k = 0; k < edges.size(); ++k) add(edges[k], key).add(is_possible[k]);
  return remembered(dominators_, key, [&] {
    std::vector<int> result;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      result.push_back(costs[s] < impossible ? static_cast<int>(s) : is_impossible);
    }
    double work = static_cast<double>(costs.size());
    for (const HalfEdge& edge : edges) work += static_cast<double>(edge.table.size());
    if (work * static_cast<double>(costs.size()) > parameters_.most_comparisons) return result;
    const auto extremes = extremes_of(edges, is_possible);
    const auto is_left = [&](std::size_t s) { return result[s] == static_cast<int>(s); };
    for (std::size_t s = 0; s < costs.size(); ++s) {
      for (std::size_t t = 0; t < costs.size() && is_left(s); ++t) {
        if (t == s || !is_left(t) || (!usages.empty() && usages[t] > usages[s])) continue;
        if (may_dominate(costs, edges, extremes, t, s) &&
            dominates(costs, edges, is_possible, t, s)) {
          result[s] = static_cast<int>(t);
        }
      }
    }
    return result;
  });
}

std::shared_ptr<const Reductions::Eliminated> Reductions::eliminate(
    const std::vector<Cost>& costs, const std::vector<HalfEdge>& edges) {
  MemoKey key;
  for (const HalfEdge& edge : edges) add(edge, key);
  return remembered(eliminated_, key.add(costs), [&] {
    Eliminated result;
    std::vector<Cost> sums;
    sums.reserve(edges.back().others * (edges.size() == 2 ? edges.front().others : 1));
    result.answers.reserve(sums.capacity());
    compared_sums_ += static_cast<double>(sums.capacity()) * static_cast<double>(costs.size());
    const CostTable columns = by_others(edges.back());
    const auto add_row = [&](const std::vector<Cost>& row) {
      for (const Cost* column = columns.begin(); column != columns.end(); column += row.size()) {
        const auto [least, s] = least_sum(row, column);
        sums.push_back(least);
        result.answers.push_back(static_cast<int>(s));
      }
    };
    if (edges.size() == 1) {
      add_row(costs);
      result.costs = std::move(sums);
      return result;
    }
    const CostTable rows = by_others(edges.front());
    std::vector<Cost> beside(costs.size());
    for (std::size_t t = 0; t < edges.front().others; ++t) {
      for (std::size_t s = 0; s < beside.size(); ++s) {
        beside[s] = plus(costs[s], rows[t * beside.size() + s]);
      }
      add_row(beside);
    }
    result.costs = unique(std::move(sums));
    return result;
  });
}

}  // namespace autopar::assignment
