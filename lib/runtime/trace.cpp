#include "runtime/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/read_file.h"
#include "base/whole_file.h"

namespace autopar::runtime {
namespace {

using nlohmann::json;

const char* name_of(Queue queue) {
  constexpr std::array<const char*, num_queues> names = {"computation", "communication", "receive",
                                                         "send"};
  return names[static_cast<std::size_t>(queue)];
}

/// From the first span's begin to the last one's end.
std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> window_of(
    std::span<const std::vector<Span>> by_rank) {
  auto first = std::chrono::nanoseconds::max();
  auto last = std::chrono::nanoseconds::min();
  for (const auto& spans : by_rank)
    for (const Span& span : spans) {
      first = std::min(first, span.begin);
      last = std::max(last, span.begin + span.duration);
    }
  return {first, last};
}

bool is_between_stages(const Span& span) {
  return span.queue == Queue::receive || span.queue == Queue::send;
}

/// How long at least one of the spans that are a stage's own work lasts.
std::chrono::nanoseconds busy_time(const std::vector<Span>& spans) {
  std::vector<std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds>> times;
  for (const Span& span : spans)
    if (!is_between_stages(span)) times.emplace_back(span.begin, span.begin + span.duration);
  std::ranges::sort(times);
  std::chrono::nanoseconds busy{};
  auto until = std::chrono::nanoseconds::min();
  for (const auto& [begin, end] : times) {
    if (end <= until) continue;
    busy += end - std::max(begin, until);
    until = end;
  }
  return busy;
}

constexpr int most_ranks = 1 << 20;

std::chrono::nanoseconds from_microseconds(double time) {
  constexpr double longest = 1e15;  // 30 years
  if (!(time >= 0 && time <= longest)) throw std::out_of_range("a time");
  return std::chrono::round<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::micro>(time));
}

/// Throws what the JSON library or the standard one throws where the event is not one of ours.
Span span_of_event(const json& event) {
  const json& arguments = event.at("args");
  Span span;
  const int queue = event.at("tid").get<int>();
  if (queue < 0 || queue >= static_cast<int>(num_queues)) throw std::out_of_range("a queue");
  span.queue = static_cast<Queue>(queue);
  span.node = event.at("name").get<std::string>();
  span.op_type = arguments.at("op_type").get<std::string>();
  span.microbatch = arguments.at("microbatch").get<int>();
  if (arguments.contains("bytes")) span.bytes = arguments.at("bytes").get<std::int64_t>();
  span.begin = from_microseconds(event.at("ts").get<double>());
  span.duration = from_microseconds(event.at("dur").get<double>());
  return span;
}

double in_microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Tells the viewer what a process or a thread is called.
json name_event(const char* what, int rank, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

Span span_of(const Step& step) {
  Span span{queue_of(step), step.node, step.op_type, {}, {}, std::nullopt, step.microbatch};
  const auto* collective = collective_of(step);
  if (collective != nullptr && !collective->payload().empty()) {
    span.bytes = 0;
    for (const bundle::CollectiveTotal& call : collective->payload()) *span.bytes += call.bytes;
  }
  return span;
}

json to_json(std::span<const Span> spans) {
  json list = json::array();
  for (const Span& span : spans) {
    json each{{"queue", static_cast<int>(span.queue)},
              {"node", span.node},
              {"op_type", span.op_type},
              {"begin", span.begin.count()},
              {"duration", span.duration.count()},
              {"microbatch", span.microbatch}};
    if (span.bytes) each["bytes"] = *span.bytes;
    list.push_back(std::move(each));
  }
  return list;
}

std::vector<Span> spans_from_json(const json& list) {
  std::vector<Span> spans;
  for (const json& each : list) {
    Span& span = spans.emplace_back();
    span.queue = static_cast<Queue>(each["queue"].get<int>());
    span.node = each["node"];
    span.op_type = each["op_type"];
    span.begin = std::chrono::nanoseconds(each["begin"].get<std::int64_t>());
    span.duration = std::chrono::nanoseconds(each["duration"].get<std::int64_t>());
    span.microbatch = each["microbatch"];
    if (each.contains("bytes")) span.bytes = each["bytes"].get<std::int64_t>();
  }
  return spans;
}

std::vector<double> idle_shares(std::span<const std::vector<Span>> by_rank) {
  const auto [first, last] = window_of(by_rank);
  std::vector<double> shares;
  using Seconds = std::chrono::duration<double>;
  for (const auto& spans : by_rank)
    shares.push_back(last <= first ? 0 : 1 - Seconds(busy_time(spans)) / Seconds(last - first));
  return shares;
}

bool is_pipeline(std::span<const std::vector<Span>> by_rank) {
  return std::ranges::any_of(by_rank, [](const std::vector<Span>& spans) {
    return std::ranges::any_of(spans, is_between_stages);
  });
}

json chrome_trace(std::span<const std::vector<Span>> by_rank) {
  const auto [first, last] = window_of(by_rank);
  const std::vector<double> bubbles = idle_shares(by_rank);
  const bool has_bubbles = is_pipeline(by_rank);
  json events = json::array();
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (by_rank[r].empty()) continue;
    events.push_back(name_event("process_name", rank, 0, fmt::format("rank {}", rank)));
    std::set<Queue> queues;
    for (const Span& span : by_rank[r]) {
      const int thread = static_cast<int>(span.queue);
      if (queues.insert(span.queue).second)
        events.push_back(name_event("thread_name", rank, thread, name_of(span.queue)));
      json arguments{{"op_type", span.op_type}, {"microbatch", span.microbatch}};
      if (span.bytes) arguments["bytes"] = *span.bytes;
      events.push_back({{"ph", "X"},
                        {"name", span.node},
                        {"pid", rank},
                        {"tid", thread},
                        {"ts", in_microseconds(span.begin - first)},
                        {"dur", in_microseconds(span.duration)},
                        {"args", std::move(arguments)}});
    }
    if (!has_bubbles) continue;
    events.push_back({{"ph", "i"},
                      {"s", "p"},
                      {"name", fmt::format("bubbles: {:.0f} %", 100 * bubbles[r])},
                      {"pid", rank},
                      {"tid", 0},
                      {"ts", in_microseconds(last - first)},
                      {"args", {{"share", bubbles[r]}}}});
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void check_trace_file(const std::filesystem::path& file, const char* option) {
  try {
    const WholeFile can_be_made(file);
  } catch (const Error& cause) {
    fail("{}: {}", option, cause.what());
  }
}

std::vector<std::vector<Span>> load_trace(const std::filesystem::path& file, const char* option) {
  const std::string text = read_file(
      file, std::string(option) + " {} cannot be read ({}); give a trace of run --profile");
  std::vector<std::vector<Span>> by_rank;
  try {
    const json trace = json::parse(text);
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const int rank = event.at("pid").get<int>();
      if (rank < 0 || rank >= most_ranks) throw std::out_of_range("a rank");
      if (static_cast<std::size_t>(rank) >= by_rank.size())
        by_rank.resize(static_cast<std::size_t>(rank) + 1);
      by_rank[static_cast<std::size_t>(rank)].push_back(span_of_event(event));
    }
  } catch (const std::exception&) {
    fail("{} {}: it is no trace of run --profile", option, file.string());
  }
  return by_rank;
}

void save_trace(const std::filesystem::path& file, std::span<const std::vector<Span>> by_rank,
                const char* option) {
  const std::string text = chrome_trace(by_rank).dump();  // throws before there is a file
  try {
    write_file(file, text + '\n');
  } catch (const Error& cause) {
    fail("{}: {}", option, cause.what());
  }
}

}  // namespace autopar::runtime
