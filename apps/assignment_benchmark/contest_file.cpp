#include "contest_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "assignment/memo.h"
#include "base/error.h"
#include "json_scanner.h"

namespace autopar {

namespace {

using assignment::AssignmentProblem;
using Rows = std::vector<std::vector<std::int64_t>>;

/// The file's lists as they stand there.
struct Lists {
  Rows intervals;
  Rows node_costs;
  Rows usages;
  Rows ends;
  std::vector<assignment::CostTable> edge_costs;  ///< equal ones share their costs
  std::optional<std::int64_t> usage_limit;
};

Lists read(JsonScanner& json) {
  Lists lists;
  std::set<std::string> seen;
  const auto once = [&](const std::string& name) {
    if (!seen.insert(name).second) json.refuse(name + " stands there twice");
  };
  const auto rows = [&](const std::string& name, Rows& result) {
    once(name);
    json.array([&] { result.push_back(json.integers()); });
  };
  assignment::TablePool pool;
  const auto tables = [&](const std::string& name, std::vector<assignment::CostTable>& result) {
    once(name);
    json.array([&] { result.push_back(pool.unique(json.integers())); });
  };
  const auto nodes = [&](const std::string& key) {
    if (key == "intervals") return rows("nodes.intervals", lists.intervals);
    if (key == "costs") return rows("nodes.costs", lists.node_costs);
    if (key == "usages") return rows("nodes.usages", lists.usages);
    json.skip();
  };
  const auto edges = [&](const std::string& key) {
    if (key == "nodes") return rows("edges.nodes", lists.ends);
    if (key == "costs") return tables("edges.costs", lists.edge_costs);
    json.skip();
  };
  json.object([&](const std::string& key) {
    if (key != "problem") return json.skip();
    once("problem");
    json.object([&](const std::string& part) {
      if (part == "nodes") return json.object(nodes);
      if (part == "edges") return json.object(edges);
      if (part != "usage_limit") return json.skip();
      once("usage_limit");
      lists.usage_limit = json.integer();
    });
  });
  json.end();
  for (const char* name : {"problem", "nodes.intervals", "nodes.costs", "nodes.usages",
                           "edges.nodes", "edges.costs"}) {
    if (!seen.contains(name)) json.refuse(std::string(name) + " is missing");
  }
  return lists;
}

AssignmentProblem assemble(Lists lists, const JsonScanner& json) {
  const auto demand = [&](bool holds, const char* what, std::size_t index) {
    if (!holds) json.refuse(fmt::format("{} {}", what, index));
  };
  const std::size_t count = lists.node_costs.size();
  if (lists.intervals.size() != count || lists.usages.size() != count) {
    json.refuse("nodes.intervals, nodes.costs and nodes.usages differ in length");
  }
  if (lists.ends.size() != lists.edge_costs.size()) {
    json.refuse("edges.nodes and edges.costs differ in length");
  }
  constexpr std::int64_t most_times = 100'000'000;
  AssignmentProblem problem;
  problem.nodes.reserve(count);
  std::size_t horizon = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& interval = lists.intervals[i];
    demand(interval.size() == 2 && interval[0] >= 0 && interval[1] <= most_times,
           "no [first, end) is the interval of node", i);
    demand(!lists.node_costs[i].empty(), "no strategy has node", i);
    demand(lists.usages[i].size() == lists.node_costs[i].size(),
           "costs and usages differ in length for node", i);
    demand(std::ranges::min(lists.usages[i]) >= 0, "a negative usage has node", i);
    // The contest's evaluator lets an interval without a time count for nothing.
    const auto end = std::max(interval[0], interval[1]);
    problem.nodes.push_back({std::move(lists.node_costs[i]), std::move(lists.usages[i]),
                             static_cast<int>(interval[0]), static_cast<int>(end)});
    horizon = std::max(horizon, static_cast<std::size_t>(end));
  }
  problem.edges.reserve(lists.ends.size());
  for (std::size_t k = 0; k < lists.ends.size(); ++k) {
    const auto& ends = lists.ends[k];
    const auto is_node = [&](std::int64_t i) {
      return i >= 0 && static_cast<std::size_t>(i) < count;
    };
    demand(ends.size() == 2 && is_node(ends[0]) && is_node(ends[1]) && ends[0] != ends[1],
           "no two nodes are joined by edge", k);
    const auto strategies = [&](std::int64_t i) {
      return problem.nodes[static_cast<std::size_t>(i)].costs.size();
    };
    demand(lists.edge_costs[k].size() == strategies(ends[0]) * strategies(ends[1]),
           "not one cost a pair of strategies has edge", k);
    problem.edges.push_back(
        {static_cast<int>(ends[0]), static_cast<int>(ends[1]), std::move(lists.edge_costs[k])});
  }
  if (lists.usage_limit) problem.usage_limits.assign(horizon, *lists.usage_limit);
  return problem;
}

}  // namespace

assignment::AssignmentProblem read_contest_file(const std::string& path) {
  JsonScanner json(path);
  return assemble(read(json), json);
}

}  // namespace autopar
