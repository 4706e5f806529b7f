#include "isolated_runs.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace autopar::conformance {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  std::size_t place = 0;
  pid_t pid = 0;
  int pipe = -1;  ///< what it says of its test comes here
  std::string said;
  Clock::time_point deadline;
};

std::string to_text(const TestResult& result) {
  return nlohmann::json{{"outcome", static_cast<int>(result.outcome)},
                        {"operators", result.operators},
                        {"message", result.message},
                        {"plans", result.plans},
                        {"fixed_inputs", result.fixed_inputs},
                        {"inputs", result.inputs},
                        {"fixed_since", result.fixed_since},
                        {"is_random", result.is_random}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TestResult from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {static_cast<Outcome>(json.at("outcome").get<int>()),
          json.at("operators"),
          json.at("message"),
          json.at("plans"),
          json.at("fixed_inputs"),
          json.at("inputs"),
          json.at("fixed_since"),
          json.at("is_random")};
}

[[noreturn]] void run_child(const std::filesystem::path& folder, const TestOptions& options,
                            int pipe) {
  const std::string text = to_text(run_test(folder, options));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(pipe, text.data() + at, text.size() - at);
    if (written < 0) break;
    at += static_cast<std::size_t>(written);
  }
  std::fflush(nullptr);
  ::_exit(0);
}

Child start(std::size_t place, const std::filesystem::path& folder, const TestOptions& options,
            int seconds) {
  int ends[2];
  if (::pipe(ends) != 0) fail("cannot make a pipe for {}", folder.string());
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) fail("cannot start a process for {}", folder.string());
  if (pid == 0) {
    ::close(ends[0]);
    run_child(folder, options, ends[1]);
  }
  ::close(ends[1]);
  return {place, pid, ends[0], {}, Clock::now() + std::chrono::seconds(seconds)};
}

/// When the pipe is closed: the process has ended, or is about to.
TestResult finish(const Child& child, bool was_killed) {
  ::close(child.pipe);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  TestResult result;
  if (was_killed) {
    result.outcome = Outcome::hung;
    result.message = "took too long and was killed";
  } else if (WIFSIGNALED(status) || child.said.empty()) {
    result.outcome = Outcome::crashed;
    result.message =
        WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status)) : "said nothing";
  } else {
    result = from_text(child.said);
  }
  return result;
}

/// Takes what the child says; true where it has said all.
bool listen(Child& child) {
  char buffer[4096];
  const ssize_t got = ::read(child.pipe, buffer, sizeof buffer);
  if (got > 0) child.said.append(buffer, static_cast<std::size_t>(got));
  return got <= 0;
}

}  // namespace

void run_isolated(const std::vector<std::filesystem::path>& folders, const TestOptions& options,
                  int jobs, int seconds,
                  const std::function<void(std::size_t place, const TestResult& result)>& report) {
  std::vector<Child> children;
  for (std::size_t next = 0; next < folders.size() || !children.empty();) {
    while (next < folders.size() && children.size() < static_cast<std::size_t>(jobs)) {
      children.push_back(start(next, folders[next], options, seconds));
      ++next;
    }
    std::vector<pollfd> polled;
    for (const Child& child : children) polled.push_back({child.pipe, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 1000);
    for (std::size_t i = children.size(); i-- > 0;) {
      Child& child = children[i];
      const bool is_late = Clock::now() > child.deadline;
      if (is_late) ::kill(child.pid, SIGKILL);
      const bool has_ended = polled[i].revents != 0 && listen(child);
      if (!is_late && !has_ended) continue;
      report(child.place, finish(child, is_late));
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace autopar::conformance
