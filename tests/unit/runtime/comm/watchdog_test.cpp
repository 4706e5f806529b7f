#include "runtime/comm/watchdog.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

using autopar::runtime::Watchdog;
using namespace std::chrono_literals;

namespace {

/// A process of its own that does some work and ends with 0, unless the work ends it before.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    REQUIRE(pipe(errors_.data()) == 0);
    id_ = fork();
    REQUIRE(id_ >= 0);
    if (id_ > 0) {
      close(errors_[1]);
      return;
    }
    dup2(errors_[1], STDERR_FILENO);
    work();
    _exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { close(errors_[0]); }

  void signal(int number) const { kill(id_, number); }

  /// Its exit code, when it has ended.
  int exit_code() const {
    int status = 0;
    waitpid(id_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// What it has written to standard error.
  std::string errors() const {
    std::array<char, 1000> text{};
    const ssize_t size = read(errors_[0], text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  std::array<int, 2> errors_{};
  pid_t id_ = 0;
};

}  // namespace

TEST_CASE("a watchdog ends a process that hangs, with one line and as a failed command") {
  const Child child([] {
    const Watchdog watchdog(50ms, "rank 3: it hangs");
    std::this_thread::sleep_for(1h);
  });
  CHECK(child.exit_code() == 1);
  CHECK(child.errors() == "error: rank 3: it hangs\n");
}

TEST_CASE("a watchdog does nothing to a process that goes on in time") {
  const Child child([] {
    for (int i = 0; i < 10; ++i) {
      const Watchdog watchdog(1min, "it hangs");
    }
  });
  CHECK(child.exit_code() == 0);
  CHECK(child.errors().empty());
}

TEST_CASE("a watchdog gives a process that was stopped its time anew") {
  const Child child([] {
    const auto end = std::chrono::steady_clock::now() + 7s;
    const Watchdog watchdog(5s, "it hangs");
    if (write(STDERR_FILENO, "begun", 5) != 5) _exit(2);
    // Behind the time for which it is stopped, and before that which it then has.
    while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(10ms);
  });
  CHECK(child.errors() == "begun");
  child.signal(SIGSTOP);
  std::this_thread::sleep_for(6s);
  child.signal(SIGCONT);
  CHECK(child.exit_code() == 0);
  CHECK(child.errors().empty());
}
