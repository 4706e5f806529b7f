// The library's Session, timed from outside of it: opens a bundle, and for each line of standard
// input, a number, makes as many runs and answers with a line of JSON, the seconds of each.
//
//     session_benchmark BUNDLE THREADS NAME=FILE.npy...

#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "runtime/tensor_files.h"

namespace {

using namespace autopar;
using Clock = std::chrono::steady_clock;

std::vector<double> seconds_of_runs(runtime::Session& session, const runtime::NamedTensors& inputs,
                                    int count) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    session.run(inputs);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

void answer(const std::vector<std::string>& words) {
  runtime::Session session(words.at(0), {.device = {.threads = std::stoi(words.at(1))}});
  runtime::NamedTensors inputs;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    inputs.emplace(words[i].substr(0, equals), runtime::load_npy(words[i].substr(equals + 1)));
  }
  int count = 0;
  while (std::cin >> count)
    std::cout << nlohmann::json(seconds_of_runs(session, inputs, count)).dump() << std::endl;
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
