#include "fault_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "allocation_places.h"

namespace autopar::faults {
namespace {

constexpr std::array<std::string_view, num_kinds> names = {
    "open",     "read",    "write", "sync",    "close", "rename", "noreplace",
    "exchange", "unlink",  "mkdir", "chmod",   "lock",  "map",    "allocate",
    "pages",    "connect", "send",  "receive", "poll"};

struct ErrorName {
  std::string_view name;
  int error;
};
constexpr ErrorName errors[] = {{"EACCES", EACCES},         {"EAGAIN", EAGAIN},
                                {"EBADF", EBADF},           {"ECONNREFUSED", ECONNREFUSED},
                                {"ECONNRESET", ECONNRESET}, {"EDQUOT", EDQUOT},
                                {"EEXIST", EEXIST},         {"EINTR", EINTR},
                                {"EINVAL", EINVAL},         {"EIO", EIO},
                                {"EMFILE", EMFILE},         {"ENETUNREACH", ENETUNREACH},
                                {"ENFILE", ENFILE},         {"ENOBUFS", ENOBUFS},
                                {"ENOLCK", ENOLCK},         {"ENOMEM", ENOMEM},
                                {"ENOSPC", ENOSPC},         {"ENOSYS", ENOSYS},
                                {"ENOTSUP", ENOTSUP},       {"EPERM", EPERM},
                                {"EPIPE", EPIPE},           {"EROFS", EROFS},
                                {"ETIMEDOUT", ETIMEDOUT},   {"EXDEV", EXDEV}};

/// "write:3:ENOSPC+": the third call that writes, and all after it.
struct Rule {
  enum class Action { fail, shorten, tear, kill, stop };

  Kind kind = Kind::open;
  long call = 0;
  bool lasts = false;
  Action action = Action::fail;
  int error = 0;
};

[[noreturn]] void refuse(std::string_view text) {
  // No stream: they may not be ready yet.
  constexpr std::string_view what = "AUTOPAR_FAULTS is malformed: ";
  (void)!syscall(SYS_write, 2, what.data(), what.size());
  (void)!syscall(SYS_write, 2, text.data(), text.size());
  _exit(99);
}

std::optional<Kind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Kind>(i);
  return std::nullopt;
}

Rule parse_rule(std::string_view text) {
  Rule rule;
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  if (first == text.npos || second == text.npos) refuse(text);
  const std::optional<Kind> kind = kind_named(text.substr(0, first));
  if (!kind) refuse(text);
  rule.kind = *kind;
  rule.call = std::strtol(text.data() + first + 1, nullptr, 10);
  std::string_view action = text.substr(second + 1);
  if (action.ends_with('+')) {
    rule.lasts = true;
    action.remove_suffix(1);
  }
  if (action == "short") {
    rule.action = Rule::Action::shorten;
  } else if (action == "torn") {
    rule.action = Rule::Action::tear;
  } else if (action == "kill") {
    rule.action = Rule::Action::kill;
  } else if (action == "stop") {
    rule.action = Rule::Action::stop;
  } else {
    for (const ErrorName& each : errors)
      if (each.name == action) rule.error = each.error;
  }
  if (rule.call < 1 || (rule.action == Rule::Action::fail && rule.error == 0)) refuse(text);
  return rule;
}

/// All that the environment says, read once.
class FaultPlan {
 public:
  static FaultPlan& get() {
    static FaultPlan plan;
    return plan;
  }

  Fault next(Kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    const long call = ++calls_[index];
    Fault fault{.call = call};
    for (std::size_t i = 0; i < num_rules_; ++i) {
      const Rule& rule = rules_[i];
      if (rule.kind != kind || (rule.lasts ? call < rule.call : call != rule.call)) continue;
      ++met_;
      switch (rule.action) {
        case Rule::Action::fail:
          fault.error = rule.error;
          break;
        case Rule::Action::shorten:
          fault.is_short = true;
          break;
        case Rule::Action::tear:
          fault.is_torn = true;
          break;
        case Rule::Action::kill:
          kill(getpid(), SIGKILL);
          break;
        case Rule::Action::stop:
          // To this thread: one to the process may go to another, and this one runs on until then.
          raise(SIGSTOP);
          break;
      }
    }
    return fault;
  }

  bool is_under(std::string_view path) const {
    if (under_.empty()) return true;
    if (!path.starts_with(under_)) return false;
    return path.size() == under_.size() || path[under_.size()] == '/';
  }
  bool is_watched_allocation(std::size_t bytes) const {
    return watches_allocations_ && bytes >= least_allocation_;
  }

  ~FaultPlan() {
    const char* file = std::getenv("AUTOPAR_FAULT_COUNTS");
    if (file == nullptr) return;
    std::array<char, 1024> line{};
    int used = std::snprintf(line.data(), line.size(), "{\"met\": %ld", met_.load());
    for (std::size_t i = 0; i < num_kinds; ++i)
      used += std::snprintf(line.data() + used, line.size() - static_cast<std::size_t>(used),
                            ", \"%s\": %ld", names[i].data(), calls_[i].load());
    used += std::snprintf(line.data() + used, line.size() - static_cast<std::size_t>(used), "}\n");
    const long out =
        syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    (void)!syscall(SYS_write, out, line.data(), used);
    syscall(SYS_close, out);
  }

 private:
  FaultPlan() {
    if (const char* text = std::getenv("AUTOPAR_FAULTS")) {
      std::string_view rest = text;
      while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        if (num_rules_ == rules_.size()) refuse(rest);
        rules_[num_rules_++] = parse_rule(rest.substr(0, comma));
        rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
      }
    }
    if (const char* folder = std::getenv("AUTOPAR_FAULT_UNDER")) under_ = folder;
    if (const char* bytes = std::getenv("AUTOPAR_FAULT_BYTES")) {
      watches_allocations_ = true;
      least_allocation_ = std::strtoull(bytes, nullptr, 10);
    }
  }

  std::array<Rule, 8> rules_{};
  std::size_t num_rules_ = 0;
  std::array<std::atomic<long>, num_kinds> calls_{};
  std::atomic<long> met_ = 0;
  std::string_view under_;
  bool watches_allocations_ = false;
  std::size_t least_allocation_ = 0;
};

/// Counts are told at the end of the process, of which this is the last part to run that is ours.
[[maybe_unused]] const FaultPlan& at_the_end = FaultPlan::get();

/// What a descriptor is open on, as the system tells it; no other calls of ours are counted here.
std::size_t read_link(int descriptor, std::array<char, PATH_MAX>& target) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlink, name.data(), target.data(), target.size() - 1);
  return length < 0 ? 0 : static_cast<std::size_t>(length);
}

/// Allocators are called before anything here is made.
bool main_has_begun = false;
int (*real_main)(int, char**, char**) = nullptr;

int counted_main(int count, char** arguments, char** environment) {
  prepare_places();
  main_has_begun = true;
  return real_main(count, arguments, environment);
}

}  // namespace

Fault next_fault(Kind kind) { return FaultPlan::get().next(kind); }

void end_if_torn(const Fault& fault) {
  if (fault.is_torn) kill(getpid(), SIGKILL);
}

bool is_watched(int descriptor) {
  const int error = errno;
  std::array<char, PATH_MAX> target{};
  const std::size_t length = read_link(descriptor, target);
  errno = error;
  return target[0] == '/' && FaultPlan::get().is_under({target.data(), length});
}

bool is_watched(int folder, const char* path) {
  const int error = errno;
  const bool is = FaultPlan::get().is_under(absolute_path(folder, path));
  errno = error;
  return is;
}

bool is_socket(int descriptor) {
  const int error = errno;
  struct stat status {};
  const bool is = fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
  errno = error;
  return is;
}

bool is_watched_allocation(std::size_t bytes) {
  return main_has_begun && FaultPlan::get().is_watched_allocation(bytes);
}

std::string absolute_path(int folder, const char* path) {
  if (path == nullptr) return "";
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> base{};
  if (folder == AT_FDCWD)
    (void)!syscall(SYS_getcwd, base.data(), base.size());
  else
    read_link(folder, base);
  return std::string(base.data()) + (path[0] == '\0' ? "" : "/") + path;
}

std::string path_of(int descriptor) {
  std::array<char, PATH_MAX> target{};
  return {target.data(), read_link(descriptor, target)};
}

}  // namespace autopar::faults

/// The C library's start of a program.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                                 void (*init)(), void (*fini)(), void (*loader_fini)(),
                                 void* stack_end) {
  using namespace autopar::faults;
  using Start =
      int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  static const auto real = next_function<Start>("__libc_start_main");
  return real(counted_main, count, arguments, init, fini, loader_fini, stack_end);
}
