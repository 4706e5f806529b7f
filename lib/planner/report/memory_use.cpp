#include "planner/report/memory_use.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/device_fit.h"
#include "program/memory_prediction.h"
#include "program/simulation.h"

namespace autopar::planner {

namespace {

using nlohmann::json;

constexpr std::size_t most_points = 1000;
constexpr std::size_t most_buffers = 4;

struct Point {
  double seconds = 0;
  std::int64_t bytes = 0;
};

/// When each operator of the rank's first microbatch begins, from the first one's begin on.
std::map<std::string, double> begins_of(const program::Simulation& simulation, int rank) {
  std::map<std::string, double> begins;
  double first = -1;
  for (const program::SimulatedStep& step : simulation.steps(rank)) {
    const bool is_work = step.lane == program::SimulatedStep::Lane::computation ||
                         step.lane == program::SimulatedStep::Lane::communication;
    if (step.microbatch > 0 || !is_work) continue;
    if (first < 0) first = step.begin_seconds;
    begins.emplace(step.node, step.begin_seconds - first);
  }
  return begins;
}

/// A point a node; what a rewrite adds begins with what is before it.
std::vector<Point> points_of(const program::RunGraph& run,
                             const std::map<std::string, double>& begins) {
  const std::vector<std::int64_t> alive = program::activation_bytes(run);
  std::vector<Point> points;
  double now = 0;
  for (std::size_t n = 0; n < alive.size(); ++n) {
    const auto begin = begins.find(run.graph.nodes[n].name);
    if (begin != begins.end()) now = std::max(now, begin->second);
    points.push_back({now, run.predicted.weight_bytes + alive[n]});
  }
  return points;
}

/// Neighbours as one point with the most of their bytes.
std::vector<Point> thinned(const std::vector<Point>& points) {
  const std::size_t each = (points.size() + most_points - 1) / most_points;
  std::vector<Point> few;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % each == 0) few.push_back(points[i]);
    few.back().bytes = std::max(few.back().bytes, points[i].bytes);
  }
  return few;
}

json curve_json(const program::RunGraph& run, const program::MemoryPeak& peak,
                const std::map<std::string, double>& begins, const std::vector<int>& ranks) {
  json curve{{"ranks", ranks},
             {"seconds", json::array()},
             {"bytes", json::array()},
             {"peak_operator", peak.node},
             {"largest", json::array()}};
  for (const Point& point : thinned(points_of(run, begins))) {
    curve["seconds"].push_back(point.seconds);
    curve["bytes"].push_back(point.bytes);
  }
  for (const auto& buffer : peak.largest)
    curve["largest"].push_back({{"name", buffer.name}, {"bytes", buffer.bytes}});
  return curve;
}

}  // namespace

json memory_json(const plan::PipelinePlan& plan, const program::PipelineProgram& program,
                 const cost::DeviceModel& device, std::int64_t limit_bytes) {
  const program::Simulation simulation(plan, program, device);
  std::map<int, json> by_rank;
  json curves = json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<std::vector<int>> classes = program::alike_ranks(program.stages[s]);
    std::ranges::sort(classes);
    for (std::vector<int>& ranks : classes) {
      for (int& rank : ranks) rank += plan.stages[s].first_rank;
      const auto run = run_graph_on(device, program::rank_graph(plan, program, ranks.front()));
      const program::MemoryPeak peak = program::find_memory_peak(run, most_buffers);
      for (const int rank : ranks)
        by_rank[rank] = {{"rank", rank},
                         {"stage", s},
                         {"weight_bytes", peak.weight_bytes},
                         {"activation_bytes", peak.activation_bytes},
                         {"reserve_bytes", peak.reserve_bytes},
                         {"peak_bytes", run.predicted.peak_bytes},
                         {"curve", curves.size()}};
      curves.push_back(curve_json(run, peak, begins_of(simulation, ranks.front()), ranks));
    }
  }
  json told{{"limit_bytes", limit_bytes}, {"ranks", json::array()}, {"curves", std::move(curves)}};
  for (auto& [rank, of_rank] : by_rank) told["ranks"].push_back(std::move(of_rank));
  return told;
}

}  // namespace autopar::planner
