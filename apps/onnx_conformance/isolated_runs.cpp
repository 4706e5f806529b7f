#include "isolated_runs.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"

namespace autopar::conformance {
namespace {

using Clock = std::chrono::steady_clock;

using Places = std::vector<std::size_t>;

struct Child {
  Places places;         ///< its tests, in order
  std::size_t done = 0;  ///< of which it has told the result
  pid_t pid = 0;
  int pipe = -1;  ///< a line for each test comes here
  std::string said;
  bool has_failed = false;     ///< its last test
  Clock::time_point deadline;  ///< of the test that it is at
};

std::string to_text(const TestResult& result) {
  return nlohmann::json{{"outcome", static_cast<int>(result.outcome)},
                        {"operators", result.operators},
                        {"message", result.message},
                        {"plans", result.plans},
                        {"fixed_inputs", result.fixed_inputs},
                        {"inputs", result.inputs},
                        {"fixed_since", result.fixed_since},
                        {"is_random", result.is_random},
                        {"unanswered", result.unanswered}}
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
          json.at("is_random"),
          json.at("unanswered")};
}

bool is_failure(const TestResult& result) {
  return result.outcome != Outcome::passed && result.outcome != Outcome::skipped;
}

bool write_all(int pipe, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(pipe, text.data() + at, text.size() - at);
    if (written < 0) return false;
    at += static_cast<std::size_t>(written);
  }
  return true;
}

void limit_memory(std::int64_t bytes) {
  if (bytes == 0) return;
  const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  ::setrlimit(RLIMIT_AS, &limit);
}

/// Ends at the first failure: it may have broken what later tests use.
[[noreturn]] void run_child(const std::vector<std::filesystem::path>& folders, const Places& places,
                            const TestOptions& options, int pipe) {
  limit_memory(options.memory_bytes);
  for (const std::size_t place : places) {
    const TestResult result = run_test(folders[place], options);
    if (!write_all(pipe, to_text(result) + "\n") || is_failure(result)) break;
  }
  std::fflush(nullptr);
  ::_exit(0);
}

/// Tests that wait for a process, and those that run.
class Runs {
 public:
  Runs(const std::vector<std::filesystem::path>& folders, const TestOptions& options,
       const Isolation& isolation, const Reporter& report)
      : folders_(folders), options_(options), isolation_(isolation), report_(report) {
    for (std::size_t place = folders.size(); place-- > 0;) waiting_.push_back(place);
  }

  void run_all() {
    while (!waiting_.empty() || !children_.empty()) {
      while (!waiting_.empty() && std::ssize(children_) < isolation_.jobs) start();
      std::vector<pollfd> polled;
      for (const Child& child : children_) polled.push_back({child.pipe, POLLIN, 0});
      ::poll(polled.data(), polled.size(), 1000);
      for (std::size_t i = children_.size(); i-- > 0;) {
        const bool has_ended = polled[i].revents != 0 && listen(children_[i]);
        const bool is_late = !has_ended && Clock::now() > children_[i].deadline;
        if (is_late) ::kill(children_[i].pid, SIGKILL);
        if (!is_late && !has_ended) continue;
        finish(children_[i], is_late);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

 private:
  Clock::time_point next_deadline() const {
    return Clock::now() + std::chrono::seconds(isolation_.seconds);
  }

  /// No process gets more than its share, so that none is left working alone at the end.
  Places take_tests() {
    const std::size_t share = waiting_.size() / static_cast<std::size_t>(isolation_.jobs);
    const auto most = static_cast<std::size_t>(isolation_.tests_a_process);
    Places places;
    for (std::size_t i = 0; i < std::clamp<std::size_t>(share, 1, most); ++i) {
      places.push_back(waiting_.back());
      waiting_.pop_back();
    }
    return places;
  }

  void start() {
    Child child;
    child.places = take_tests();
    const std::string first = folders_[child.places.front()].string();
    int ends[2];
    if (::pipe(ends) != 0) fail("cannot make a pipe for {}", first);
    std::fflush(nullptr);
    child.pid = ::fork();
    if (child.pid < 0) fail("cannot start a process for {}", first);
    if (child.pid == 0) {
      ::close(ends[0]);
      run_child(folders_, child.places, options_, ends[1]);
    }
    ::close(ends[1]);
    child.pipe = ends[0];
    child.deadline = next_deadline();
    children_.push_back(std::move(child));
  }

  /// Reads the child's results; true at their end.
  bool listen(Child& child) {
    char buffer[4096];
    const ssize_t got = ::read(child.pipe, buffer, sizeof buffer);
    if (got <= 0) return true;
    child.said.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = child.said.find('\n')) != std::string::npos;) {
      const TestResult result = from_text(child.said.substr(0, end));
      child.said.erase(0, end + 1);
      report_(child.places[child.done++], result);
      child.has_failed = is_failure(result);
      child.deadline = next_deadline();
    }
    return false;
  }

  /// When the pipe is closed: the process has ended, or is about to. The test that it was at has
  /// failed then, unless the process ended by itself after a failure; those behind wait again.
  void finish(Child& child, bool was_killed) {
    ::close(child.pipe);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (child.done == child.places.size()) return;
    if (was_killed) {
      give_up(child, Outcome::hung, "took too long and was killed");
    } else if (WIFSIGNALED(status)) {
      give_up(child, Outcome::crashed, fmt::format("ended by signal {}", WTERMSIG(status)));
    } else if (!child.has_failed) {
      give_up(child, Outcome::crashed, "said nothing");
    }
    const auto left = std::span(child.places).subspan(child.done);
    waiting_.insert(waiting_.end(), left.rbegin(), left.rend());
  }

  void give_up(Child& child, Outcome outcome, std::string why) {
    TestResult result;
    result.outcome = outcome;
    result.message = std::move(why);
    report_(child.places[child.done++], result);
  }

  const std::vector<std::filesystem::path>& folders_;
  const TestOptions& options_;
  const Isolation& isolation_;
  const Reporter& report_;
  Places waiting_;  ///< the next one last
  std::vector<Child> children_;
};

}  // namespace

void run_isolated(const std::vector<std::filesystem::path>& folders, const TestOptions& options,
                  const Isolation& isolation, const Reporter& report) {
  Runs(folders, options, isolation, report).run_all();
}

}  // namespace autopar::conformance
