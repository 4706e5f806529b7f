// Bucket elimination (Dechter 1999): nodes go one after the other, each replaced by a table of the
// least cost by its neighbours' strategies. The next to go is always the one whose table is
// smallest; on graphs that are nearly trees all tables stay small.

#include "search/elimination.h"

#include <algorithm>
#include <queue>
#include <set>

#include "search/saturating.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A cost by the strategies of some nodes, row-major.
struct Table {
  std::vector<int> nodes;
  std::vector<Cost> costs;
};

class Elimination {
 public:
  Elimination(const AssignmentProblem& problem, std::size_t most_cells)
      : problem_(problem),
        most_cells_(most_cells),
        neighbours_(problem.nodes.size()),
        tables_of_(problem.nodes.size()),
        is_gone_(problem.nodes.size(), 0) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      add_table({{static_cast<int>(i)}, problem.nodes[i].costs});
    }
    for (const auto& edge : problem.edges) {
      add_table({{edge.a, edge.b}, edge.costs});
      neighbours_[at(edge.a)].insert(edge.b);
      neighbours_[at(edge.b)].insert(edge.a);
    }
  }

  std::optional<std::vector<int>> run() {
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      queue.emplace(cells_of(static_cast<int>(i)), static_cast<int>(i));
    }
    while (!queue.empty()) {
      const auto [cells, i] = queue.top();
      queue.pop();
      if (is_gone_[at(i)]) continue;
      if (const double now = cells_of(i); now > cells) {
        queue.emplace(now, i);
        continue;
      }
      if (cells > static_cast<double>(most_cells_) || !eliminate(i)) return std::nullopt;
      for (const int j : steps_.back().nodes) queue.emplace(cells_of(j), j);
    }
    std::vector<int> choice(problem_.nodes.size(), 0);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::size_t index = 0;
      for (const int j : step->nodes) index = index * strategies(j) + at(choice[at(j)]);
      choice[at(step->node)] = step->answers[index];
    }
    return choice;
  }

 private:
  struct Step {
    int node;
    std::vector<int> nodes;  // whose strategies decide the node's
    std::vector<int> answers;
  };

  std::size_t strategies(int i) const { return problem_.nodes[at(i)].costs.size(); }

  double cells_of(int i) const {
    double cells = static_cast<double>(strategies(i));
    for (const int j : neighbours_[at(i)]) cells *= static_cast<double>(strategies(j));
    return cells;
  }

  void add_table(Table table) {
    for (const int i : table.nodes) tables_of_[at(i)].push_back(tables_.size());
    tables_.push_back(std::move(table));
  }

  /// Adds the table to `sums`, which is a table over `nodes`.
  void add(const Table& table, const std::vector<int>& nodes, std::vector<Cost>& sums) const {
    // How far a step of each node moves in the table, and the digits of the running index.
    std::vector<std::size_t> strides(nodes.size(), 0);
    std::size_t stride = 1;
    for (std::size_t k = table.nodes.size(); k-- > 0;) {
      const auto place = std::ranges::find(nodes, table.nodes[k]) - nodes.begin();
      strides[static_cast<std::size_t>(place)] = stride;
      stride *= strategies(table.nodes[k]);
    }
    std::vector<std::size_t> digits(nodes.size(), 0);
    std::size_t index = 0;
    for (Cost& sum : sums) {
      sum = plus(sum, table.costs[index]);
      for (std::size_t k = nodes.size(); k-- > 0;) {
        index += strides[k];
        if (++digits[k] < strategies(nodes[k])) break;
        index -= strides[k] * digits[k];
        digits[k] = 0;
      }
    }
  }

  bool eliminate(int i) {
    Step step{i, {neighbours_[at(i)].begin(), neighbours_[at(i)].end()}, {}};
    std::vector<int> nodes = step.nodes;
    nodes.push_back(i);
    std::size_t cells = 1;
    for (const int j : nodes) cells *= strategies(j);
    std::vector<Cost> sums(cells, 0);
    const std::vector<std::size_t> used = tables_of_[at(i)];
    for (const std::size_t k : used) {
      add(tables_[k], nodes, sums);
      for (const int j : tables_[k].nodes) std::erase(tables_of_[at(j)], k);
      tables_[k] = {};
    }
    Table left{step.nodes, {}};
    bool is_possible = false;
    const auto count = static_cast<std::ptrdiff_t>(strategies(i));
    for (auto row = sums.begin(); row != sums.end(); row += count) {
      const auto least = std::min_element(row, row + count);
      step.answers.push_back(static_cast<int>(least - row));
      left.costs.push_back(*least);
      is_possible = is_possible || *least < impossible;
    }
    for (const int j : step.nodes) {
      neighbours_[at(j)].erase(i);
      for (const int k : step.nodes) {
        if (j != k) neighbours_[at(j)].insert(k);
      }
    }
    if (!left.nodes.empty()) add_table(std::move(left));
    is_gone_[at(i)] = 1;
    steps_.push_back(std::move(step));
    return is_possible;
  }

  const AssignmentProblem& problem_;
  const std::size_t most_cells_;
  std::vector<std::set<int>> neighbours_;
  std::vector<Table> tables_;  // one that is used up is empty
  std::vector<std::vector<std::size_t>> tables_of_;
  std::vector<char> is_gone_;
  std::vector<Step> steps_;
};

}  // namespace

std::optional<std::vector<int>> choose_by_elimination(const AssignmentProblem& problem,
                                                      std::size_t most_cells) {
  return Elimination(problem, most_cells).run();
}

}  // namespace autopar::search
