#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// Trials that may crash or hang: each runs in a child process, which makes one after another until
/// it ends, and the next child goes on behind the one that ended it.
namespace autopar::testing {

inline constexpr unsigned most_seconds_of_a_trial = 600;

/// In the child; never returns.
[[noreturn]] inline void make_trials(std::size_t begin, std::size_t end, int to,
                                     const std::function<std::string(std::size_t)>& trial) {
  for (const int each : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGTERM, SIGALRM})
    std::signal(each, SIG_DFL);  // Catch's handlers would report a failed test
  for (std::size_t i = begin; i < end; ++i) {
    alarm(most_seconds_of_a_trial);
    std::string line = trial(i);
    for (char& c : line)
      if (c == '\n') c = '|';
    line += '\n';
    if (::write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) break;
  }
  _exit(0);
}

/// What each trial returned, or "signal 11", or "exit 1". Nothing in this process may have started
/// threads before.
inline std::vector<std::string> forked_trials(
    std::size_t count, const std::function<std::string(std::size_t)>& trial) {
  std::vector<std::string> results;
  while (results.size() < count) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      make_trials(results.size(), count, ends[1], trial);
    }
    ::close(ends[1]);
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      results.push_back(text.substr(begin, end - begin));
    if (WIFSIGNALED(status))
      results.push_back("signal " + std::to_string(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
      results.push_back("exit " + std::to_string(WEXITSTATUS(status)));
  }
  return results;
}

}  // namespace autopar::testing
