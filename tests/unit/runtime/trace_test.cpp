#include "runtime/trace.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace autopar::runtime {
namespace {

using std::chrono::nanoseconds;

std::vector<Span> two_spans() {
  return {{Queue::computation, "a \"quoted\" node", "MatMul",
           nanoseconds(1'700'000'000'000'000'500), nanoseconds(2500), std::nullopt},
          {Queue::communication, "b", "AllReduce", nanoseconds(1'700'000'000'000'003'000),
           nanoseconds(1), 4096}};
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
  }
}

TEST_CASE("A trace has a process a rank, a thread a queue, and microseconds from the first span") {
  std::vector<std::vector<Span>> by_rank{{}, two_spans()};
  const auto trace = chrome_trace(by_rank);
  const auto expected = nlohmann::json::parse(R"([
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "rank 1"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "computation"}},
    {"ph": "X", "name": "a \"quoted\" node", "pid": 1, "tid": 0, "ts": 0.0, "dur": 2.5,
     "args": {"op_type": "MatMul"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "communication"}},
    {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 2.5, "dur": 0.001,
     "args": {"op_type": "AllReduce", "bytes": 4096}}
  ])");
  CHECK(trace["traceEvents"] == expected);
}

TEST_CASE("A trace that cannot be written is refused, and asking leaves no file") {
  const auto folder = std::filesystem::temp_directory_path();
  CHECK_THROWS_WITH(check_trace_file(folder / "no such folder" / "trace.json"),
                    Catch::Contains("--profile") && Catch::Contains("no such folder"));
  CHECK_THROWS_WITH(check_trace_file(folder), Catch::Contains("cannot be written"));
  const auto file = folder / "autopar_trace_test.json";
  std::filesystem::remove(file);
  check_trace_file(file);
  CHECK(!std::filesystem::exists(file));
  save_trace(file, std::vector<std::vector<Span>>{two_spans()});
  check_trace_file(file);
  CHECK(std::filesystem::file_size(file) > 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace autopar::runtime
