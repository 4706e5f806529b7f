// The library's Session, timed from outside of it: opens a bundle, and for each line of standard
// input, a number, makes as many runs and answers with a line of JSON, the seconds of each.
//
//     session_benchmark BUNDLE THREADS [--past ROWS] NAME=FILE.npy...
//
// With --past the bundle's states stay in the session: each run reads the first ROWS rows that runs
// before have written, and its own go behind them all.

#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "runtime/tensor_files.h"

namespace {

using namespace autopar;
using Clock = std::chrono::steady_clock;

/// Run number 0, 1, 2, ... as a step behind so many rows of states.
runtime::LoopOptions step_behind(std::int64_t past, std::int64_t number) {
  constexpr std::int64_t most_steps = 500;  // then a text begins anew
  const bool is_first = number % most_steps == 0;
  return {.continues = !is_first, .past = past, .capacity = is_first ? past + most_steps : 0};
}

std::vector<double> seconds_of_runs(runtime::Session& session, const runtime::NamedTensors& inputs,
                                    std::optional<std::int64_t> past, int count) {
  static std::int64_t number = 0;
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    runtime::RunOptions options;
    if (past) options = {.loop = step_behind(*past, number++), .outputs = {"logits"}};
    const auto start = Clock::now();
    session.run(inputs, options);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

void answer(const std::vector<std::string>& words) {
  runtime::Session session(words.at(0), {.device = {.threads = std::stoi(words.at(1))}});
  std::optional<std::int64_t> past;
  if (words.size() > 3 && words[2] == "--past") past = std::stoll(words[3]);
  runtime::NamedTensors inputs;
  for (std::size_t i = past ? 4 : 2; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    inputs.emplace(words[i].substr(0, equals), runtime::load_npy(words[i].substr(equals + 1)));
  }
  int count = 0;
  while (std::cin >> count)
    std::cout << nlohmann::json(seconds_of_runs(session, inputs, past, count)).dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    answer({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
