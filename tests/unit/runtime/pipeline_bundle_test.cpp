#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "base/error.h"
#include "pipeline_bundle.h"
#include "unit/runtime/comm/tcp_world.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using namespace std::chrono_literals;
const SessionOptions options{.device = {.threads = 1}, .launch = {.timeout = 1min}};

TEST_CASE("A bundle of stages runs in threads, and its microbatches are put together in order") {
  std::mt19937 random(5);
  const PipelineBundle bundle;
  const NamedTensors inputs = random_batch(random);
  CHECK_THAT(what_is_wrong(Session(bundle.dir(), options).run(inputs, profiled), inputs),
             Catch::Equals(""));
}

TEST_CASE("A bundle of stages runs as ranks that meet over TCP") {
  std::mt19937 random(6);
  const PipelineBundle bundle;
  const NamedTensors inputs = random_batch(random);
  RunResult result;
  const auto errors = errors_of_sessions(bundle.dir(), 6, [&](Session& session) {
    RunResult of_rank = session.run(inputs, profiled);
    if (session.has_first_rank()) result = std::move(of_rank);
  });
  REQUIRE(errors == std::vector<std::string>(6));
  CHECK_THAT(what_is_wrong(result, inputs), Catch::Equals(""));
}

TEST_CASE(
    "A bundle whose stages disagree with meta-info.json is refused, in threads and over TCP") {
  std::mt19937 random(7);
  const NamedTensors inputs = random_batch(random);
  const auto refusal = [&](const std::function<void(bundle::MetaInfo&)>& spoil) {
    const PipelineBundle bundle(spoil);
    try {
      Session(bundle.dir(), options).run(inputs);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(
      refusal([](bundle::MetaInfo& info) { info.profiles[0].transfers[0].messages[1].bytes = 44; }),
      Catch::Contains("44 bytes of 'h'") && Catch::Contains("partition the model again"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.profiles[0].transfers.pop_back(); }),
             Catch::Contains("of 'n'") && Catch::Contains("partition the model again"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.profiles[0].outputs.pop_back(); }),
             Catch::Contains("has 2 outputs, but meta-info.json 1"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.profiles[0].inputs[2].name = "e"; }),
             Catch::Contains("'d': the model has no such input; it has x, c, e"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.profiles[0].inputs[2].ranges[4].reset(); }),
             Catch::Contains("'ranges' of 'd'") && Catch::Contains("rank 4"));
  CHECK_THAT(
      refusal([](bundle::MetaInfo& info) { info.profiles[0].outputs[0].type = DataType::int32; }),
      Catch::Contains("its shard has 'y' as") &&
          Catch::Contains("x6 of float32, but meta-info.json") && Catch::Contains("x6 of int32"));

  const PipelineBundle bundle(
      [](bundle::MetaInfo& info) { info.profiles[0].transfers[0].messages[1].bytes = 44; });
  for (const std::string& error :
       errors_of_sessions(bundle.dir(), 6, [&](Session& session) { session.run(inputs); }))
    CHECK(!error.empty());
}

}  // namespace
}  // namespace autopar::runtime
