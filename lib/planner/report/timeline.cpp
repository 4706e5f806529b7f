#include "planner/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace autopar::planner {

namespace {

using nlohmann::json;
using runtime::Span;
using std::chrono::nanoseconds;

constexpr std::size_t most_spans = 20000;

double in_microseconds(nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

bool is_communication(const Span& span) { return span.queue != runtime::Queue::computation; }

/// Kinds of bars: CPUs communicate in the lane in which they compute.
const char* kind_of(const Span& span) {
  if (span.queue == runtime::Queue::receive || span.queue == runtime::Queue::send)
    return "transfer";
  return is_communication(span) || span.bytes ? "communication" : "computation";
}

std::string lane_name(const TimelineRank& of, runtime::Queue queue) {
  constexpr const char* queues[] = {"", " communication", " receives", " sends"};
  const std::string ranks = of.last > of.rank ? fmt::format("ranks {}-{}", of.rank, of.last)
                                              : fmt::format("rank {}", of.rank);
  return ranks + queues[static_cast<std::size_t>(queue)];
}

class Lane {
 public:
  Lane(std::string name, nanoseconds zero) : name_(std::move(name)), zero_(zero) {}

  /// `name`: its operator's place.
  void add(const Span& span, std::size_t name) {
    begins_.push_back(in_microseconds(span.begin - zero_));
    durations_.push_back(in_microseconds(span.duration));
    names_.push_back(name);
    kinds_.emplace_back(kind_of(span));
    counts_.push_back(1);
    microbatch_ = span.microbatch;
  }
  /// Whether its last bar is the same kind of work on the same microbatch.
  bool ends_with(const Span& span) const {
    return !kinds_.empty() && kinds_.back() == kind_of(span) && microbatch_ == span.microbatch;
  }
  std::size_t last_count() const { return counts_.back(); }
  void join(const Span& span) {
    durations_.back() = in_microseconds(span.begin + span.duration - zero_) - begins_.back();
    ++counts_.back();
  }
  json told() const {
    return {{"name", name_},      {"begin", begins_}, {"duration", durations_},
            {"operator", names_}, {"kind", kinds_},   {"count", counts_}};
  }

 private:
  std::string name_;
  nanoseconds zero_;
  std::vector<double> begins_;
  std::vector<double> durations_;
  std::vector<std::size_t> names_;
  std::vector<std::string> kinds_;
  std::vector<std::size_t> counts_;
  int microbatch_ = 0;  ///< of the last one
};

struct Window {
  nanoseconds first = nanoseconds::max();
  nanoseconds last = nanoseconds::min();
  std::size_t spans = 0;
};

Window window_of(std::span<const std::vector<Span>> by_rank, std::span<const TimelineRank> ranks) {
  Window window;
  for (const TimelineRank& of : ranks)
    for (const Span& span : by_rank[static_cast<std::size_t>(of.rank)]) {
      window.first = std::min(window.first, span.begin);
      window.last = std::max(window.last, span.begin + span.duration);
      ++window.spans;
    }
  return window;
}

}  // namespace

json timeline_json(std::span<const std::vector<Span>> by_rank,
                   std::span<const TimelineRank> ranks) {
  const Window window = window_of(by_rank, ranks);
  const std::size_t most_joined = (window.spans + most_spans - 1) / most_spans;
  std::map<std::string, std::size_t> names;
  json lanes = json::array();
  json list = json::array();
  for (const TimelineRank& of : ranks) {
    std::map<runtime::Queue, Lane> of_rank;
    for (const Span& span : by_rank[static_cast<std::size_t>(of.rank)]) {
      Lane& lane =
          of_rank.try_emplace(span.queue, lane_name(of, span.queue), window.first).first->second;
      if (lane.ends_with(span) && lane.last_count() < most_joined) {
        lane.join(span);
        continue;
      }
      const auto [name, is_new] = names.try_emplace(span.op_type + '\n' + span.node, list.size());
      if (is_new) list.push_back({span.op_type, span.node});
      lane.add(span, name->second);
    }
    for (const auto& [queue, lane] : of_rank) lanes.push_back(lane.told());
  }
  return {{"lanes", std::move(lanes)},
          {"names", std::move(list)},
          {"joined", most_joined},
          {"microseconds", window.spans == 0 ? 0 : in_microseconds(window.last - window.first)}};
}

json type_costs_json(std::span<const std::vector<Span>> by_rank,
                     std::span<const TimelineRank> ranks) {
  struct Cost {
    double seconds = 0;
    double count = 0;
    bool is_communication = false;
  };
  std::map<int, int> ranks_of_stage;
  for (const TimelineRank& of : ranks) ++ranks_of_stage[of.stage];
  std::map<std::string, Cost> costs;
  for (const TimelineRank& of : ranks)
    for (const Span& span : by_rank[static_cast<std::size_t>(of.rank)]) {
      Cost& cost = costs[span.op_type];
      const double share = 1.0 / ranks_of_stage[of.stage];
      cost.seconds += share * std::chrono::duration<double>(span.duration).count();
      cost.count += share;
      cost.is_communication |= std::string_view(kind_of(span)) != "computation";
    }
  std::vector<std::pair<std::string, Cost>> sorted(costs.begin(), costs.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           [](const auto& entry) { return entry.second.seconds; });
  json list = json::array();
  for (const auto& [op_type, cost] : sorted)
    list.push_back({{"op_type", op_type},
                    {"seconds", cost.seconds},
                    {"count", cost.count},
                    {"is_communication", cost.is_communication}});
  return list;
}

}  // namespace autopar::planner
