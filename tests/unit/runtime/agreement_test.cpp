#include "runtime/agreement.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/comm/ranks.h"
#include "unit/runtime/run_node.h"

using namespace autopar;
using namespace autopar::runtime;
using graph::DataType;

namespace {

/// What each of three ranks throws, of which the last alone is given something else.
std::vector<std::string> errors_of(const std::vector<Given>& usual,
                                   const std::vector<Given>& of_last) {
  std::vector<std::string> errors(3);
  Ranks ranks = Ranks::in_threads(3, std::chrono::minutes(1));
  ranks.run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
    try {
      require_agreement(world.rank() == 2 ? of_last : usual, world);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

void check_errors(const std::vector<Given>& usual, const std::vector<Given>& of_last,
                  const std::string& expected) {
  for (const std::string& error : errors_of(usual, of_last)) CHECK(error == expected);
}

RunOptions changed(const std::function<void(RunOptions&)>& change) {
  RunOptions options;
  change(options);
  return options;
}

graph::Tensor tensor(double last) {
  return testing::tensor_of(DataType::float32, {2, 2}, {1, 2, 3, last});
}

}  // namespace

TEST_CASE("ranks that were given the same agree") {
  const NamedTensors inputs = {{"x", tensor(4)}};
  check_errors(given_to_run(inputs, {}), given_to_run(inputs, {}), "");
  check_errors(given_to_session({}, "d"), given_to_session({}, "d"), "");
}

TEST_CASE("options of a run that differ are named with both values") {
  const std::vector<std::pair<std::function<void(RunOptions&)>, std::string>> cases = {
      {[](RunOptions& o) { o.loop.steps = 4; }, "rank 2 was given --steps 4, rank 0 --steps 1"},
      {[](RunOptions& o) { o.loop.start = 3; }, "rank 2 was given --start 3, rank 0 --start 0"},
      {[](RunOptions& o) { o.repeat = 9; }, "rank 2 was given --repeat 9, rank 0 --repeat 1"},
      {[](RunOptions& o) { o.profile = true; }, "rank 2 was given --profile, rank 0 no --profile"},
      {[](RunOptions& o) {
         o.loop.choices = {{"a", "b"}};
       },
       "rank 2 was given --choose a=b, rank 0 no --choose"},
      {[](RunOptions& o) {
         o.outputs = {"y", "z"};
       },
       "rank 2 was given outputs y z, rank 0 no outputs"},
      {[](RunOptions& o) { o.loop.past = 0; }, "rank 2 was given past rows 0, rank 0 no past rows"},
  };
  for (const auto& [change, expected] : cases)
    check_errors(given_to_run({}, {}), given_to_run({}, changed(change)),
                 expected + "; give all ranks the same");
}

TEST_CASE("inputs that differ are named: by their values, their shapes, or as missing") {
  const auto given = [](const NamedTensors& inputs) { return given_to_run(inputs, {}); };
  check_errors(given({{"x", tensor(4)}, {"y", tensor(1)}}),
               given({{"x", tensor(5)}, {"y", tensor(1)}}),
               "input 'x' differs between ranks 0 and 2; give all ranks the same");
  check_errors(given({{"x", tensor(4)}}), given({{"x", tensor(4).reshaped({4})}}),
               "rank 2 was given input 'x' of float32 4, rank 0 input 'x' of float32 2x2; give "
               "all ranks the same");
  check_errors(given({{"x", tensor(4)}}), given({}),
               "rank 2 was given no input 'x', rank 0 input 'x' of float32 2x2; give all ranks "
               "the same");
}

TEST_CASE("options of a session that differ are named") {
  SessionOptions other;
  other.launch.timeout = std::chrono::milliseconds(2500);
  other.states = {"present.*=past.*"};
  other.command = "serve";
  SessionOptions usual;
  usual.command = "run";
  check_errors(given_to_session(usual, "a"), given_to_session(other, "b"),
               "rank 2 was given --loop present.*=past.*, rank 0 no --loop; rank 2 was given "
               "--timeout 2.5, rank 0 --timeout 30; the bundle differs between ranks 0 and 2; rank "
               "2 was given the command serve, rank 0 the command run; give all ranks the same");
}
