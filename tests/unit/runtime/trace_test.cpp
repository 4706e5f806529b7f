#include "runtime/trace.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace autopar::runtime {
namespace {

using std::chrono::nanoseconds;

std::vector<Span> two_spans() {
  return {{Queue::computation, "a \"quoted\" node", "MatMul",
           nanoseconds(1'700'000'000'000'000'500), nanoseconds(2500), std::nullopt, 0},
          {Queue::communication, "b", "AllReduce", nanoseconds(1'700'000'000'000'003'000),
           nanoseconds(1), 4096, 3}};
}

TEST_CASE("Spans survive the way to another rank") {
  const std::vector<Span> spans = two_spans();
  const std::vector<Span> back = spans_from_json(nlohmann::json::parse(to_json(spans).dump()));
  REQUIRE(back.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(back[i].queue == spans[i].queue);
    CHECK(back[i].node == spans[i].node);
    CHECK(back[i].op_type == spans[i].op_type);
    CHECK(back[i].begin == spans[i].begin);
    CHECK(back[i].duration == spans[i].duration);
    CHECK(back[i].bytes == spans[i].bytes);
    CHECK(back[i].microbatch == spans[i].microbatch);
  }
}

TEST_CASE("A trace has a process a rank, a thread a queue, and microseconds from the first span") {
  std::vector<std::vector<Span>> by_rank{{}, two_spans()};
  const auto trace = chrome_trace(by_rank);
  const auto expected = nlohmann::json::parse(R"([
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "rank 1"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "computation"}},
    {"ph": "X", "name": "a \"quoted\" node", "pid": 1, "tid": 0, "ts": 0.0, "dur": 2.5,
     "args": {"op_type": "MatMul", "microbatch": 0}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "communication"}},
    {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 2.5, "dur": 0.001,
     "args": {"op_type": "AllReduce", "microbatch": 3, "bytes": 4096}}
  ])");
  CHECK(trace["traceEvents"] == expected);
}

TEST_CASE("A trace that was written is read again, from time 0 on") {
  const TemporaryFolder folder;
  const std::vector<std::vector<Span>> by_rank{{}, two_spans()};
  save_trace(folder.path() / "trace.json", by_rank, "--profile");
  const auto read = load_trace(folder.path() / "trace.json", "--measured");
  REQUIRE(read.size() == 2);
  CHECK(read[0].empty());
  REQUIRE(read[1].size() == 2);
  CHECK(read[1][0].begin == nanoseconds(0));
  CHECK(read[1][1].begin == nanoseconds(2500));
  CHECK(read[1][0].duration == nanoseconds(2500));
  CHECK(read[1][0].node == by_rank[1][0].node);
  CHECK(read[1][1].queue == Queue::communication);
  CHECK(read[1][1].op_type == "AllReduce");
  CHECK(read[1][1].bytes == 4096);
  CHECK(read[1][1].microbatch == 3);
}

TEST_CASE("What is no trace is refused by name") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "trace.json";
  for (const char* text :
       {"", "[]", "{}", R"({"traceEvents": 1})", R"({"traceEvents": [{}]})",
        R"({"traceEvents": [{"ph": "X", "name": "n", "pid": -1, "tid": 0, "ts": 0, "dur": 0,
            "args": {"op_type": "O", "microbatch": 0}}]})",
        R"({"traceEvents": [{"ph": "X", "name": "n", "pid": 0, "tid": 4, "ts": 0, "dur": 0,
            "args": {"op_type": "O", "microbatch": 0}}]})",
        R"({"traceEvents": [{"ph": "X", "name": "n", "pid": 0, "tid": 0, "ts": 0, "dur": 1e300,
            "args": {"op_type": "O", "microbatch": 0}}]})"}) {
    CAPTURE(text);
    std::ofstream(file) << text;
    CHECK_THROWS_WITH(load_trace(file, "--measured"),
                      Catch::Matchers::Contains("it is no trace of run --profile"));
  }
}

Span span_at(Queue queue, int begin, int end) {
  return {queue, "n", "Op", nanoseconds(begin), nanoseconds(end - begin), std::nullopt, 0};
}

TEST_CASE("Bubbles are what of the run a rank neither computes nor communicates in its stage") {
  const std::vector<std::vector<Span>> by_rank{
      // Overlapping and nested spans count once; waiting for another stage is no work.
      {span_at(Queue::computation, 0, 40), span_at(Queue::communication, 20, 30),
       span_at(Queue::communication, 30, 50), span_at(Queue::send, 50, 100)},
      {span_at(Queue::receive, 0, 60), span_at(Queue::computation, 75, 100)},
      {}};
  const std::vector<double> shares = idle_shares(by_rank);
  REQUIRE(shares.size() == 3);
  CHECK(shares[0] == Approx(0.5));
  CHECK(shares[1] == Approx(0.75));
  CHECK(shares[2] == Approx(1));
  CHECK(is_pipeline(by_rank));
  CHECK(!is_pipeline(std::vector<std::vector<Span>>{two_spans()}));
  CHECK(idle_shares(std::vector<std::vector<Span>>{{}}) == std::vector<double>{0});

  const auto trace = chrome_trace(by_rank);
  std::set<std::string> lanes;
  int bubbles = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"].get<std::string>());
    if (event["ph"] != "i") continue;
    ++bubbles;
    CHECK(event["args"]["share"].get<double>() == Approx(shares[event["pid"].get<std::size_t>()]));
  }
  CHECK(bubbles == 2);
  CHECK(lanes == std::set<std::string>{"computation", "communication", "receive", "send"});
}

TEST_CASE("A trace that cannot be written is refused, and asking leaves no file") {
  const TemporaryFolder temporary;
  const auto& folder = temporary.path();
  CHECK_THROWS_WITH(check_trace_file(folder / "no such folder" / "trace.json", "--profile"),
                    Catch::Contains("--profile") && Catch::Contains("no such folder"));
  CHECK_THROWS_WITH(check_trace_file(folder, "--profile"), Catch::Contains("cannot be written"));
  const auto file = folder / "trace.json";
  check_trace_file(file, "--profile");
  CHECK(!std::filesystem::exists(file));
  save_trace(file, std::vector<std::vector<Span>>{two_spans()}, "--profile");
  check_trace_file(file, "--profile");
  CHECK(std::filesystem::file_size(file) > 0);
}

}  // namespace
}  // namespace autopar::runtime
