#include "runtime/comm/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/comm/host_list.h"

namespace autopar::runtime {

namespace {

/// Where ranks meet whose launcher gives them no port; torchrun's own default.
constexpr int usual_port = 29500;
constexpr int largest_port = 65535;
constexpr const char* place_variable = "AUTOPAR_RENDEZVOUS";

using Place = std::string (*)(const Surroundings& surroundings);
std::string place_of_master(const Surroundings& surroundings);
std::string place_of_first_task(const Surroundings& surroundings);
std::string place_of_first_pod(const Surroundings& surroundings);
constexpr Place by_mpi = nullptr;

/// What it means that a rank is told and the number of ranks is not.
enum class WithoutSize { is_refused, is_no_launch, is_told_by_mpi, is_as_expected };

struct Launcher {
  const char* choice;  ///< what LaunchOptions::launcher calls it
  const char* name;
  const char* rank;  ///< variables of the environment
  const char* size;
  WithoutSize without_size;
  Place place;
};

/// The innermost first: tasks of Slurm's and pods may run mpirun or torchrun, which then have the
/// last word. In Slurm's batch script, SLURM_PROCID is set, too, but not what srun alone sets.
constexpr std::array<Launcher, 6> launchers = {{
    {"torchrun", "torchrun", "RANK", "WORLD_SIZE", WithoutSize::is_refused, place_of_master},
    {"mpi", "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", WithoutSize::is_told_by_mpi,
     by_mpi},
    {"mpi", "a launcher with PMI", "PMI_RANK", "PMI_SIZE", WithoutSize::is_told_by_mpi, by_mpi},
    {"mpi", "a launcher with PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS",
     WithoutSize::is_told_by_mpi, by_mpi},
    {"slurm", "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", WithoutSize::is_no_launch,
     place_of_first_task},
    {"kubernetes", "a Kubernetes job", "JOB_COMPLETION_INDEX", nullptr, WithoutSize::is_as_expected,
     place_of_first_pod},
}};

/// A whole number of 0 or more.
int number_of(std::string_view variable, const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0)
    fail("{} is '{}', which is no number; set it right, or unset it", variable, text);
  return number;
}

std::optional<int> number_of(const Surroundings& surroundings, const char* variable) {
  const auto text = variable == nullptr ? std::nullopt : surroundings.variable(variable);
  if (!text) return std::nullopt;
  return number_of(variable, *text);
}

std::string place_at(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

int master_port(const Surroundings& surroundings, int otherwise) {
  const int port = number_of(surroundings, "MASTER_PORT").value_or(otherwise);
  if (port < 1 || port > largest_port) fail("MASTER_PORT is {}: ports are 1 to 65535", port);
  return port;
}

/// torchrun's agent may itself listen at the port that it tells; then the next one is taken.
std::string place_of_master(const Surroundings& surroundings) {
  const auto host = surroundings.variable("MASTER_ADDR");
  if (!host)
    fail(
        "RANK is set, but not MASTER_ADDR: set it and MASTER_PORT to an address of rank 0's "
        "machine, or unset RANK to run all ranks in this process");
  const int port = master_port(surroundings, usual_port);
  const bool is_taken = surroundings.variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int next = port == largest_port ? port - 1 : port + 1;
  return place_at(*host, is_taken ? next : port);
}

/// The same for all tasks of a step, and another one for other steps and for the next jobs; below
/// the ports that systems give to clients.
int port_of_step(const Surroundings& surroundings) {
  constexpr std::int64_t first = 10000;
  constexpr std::int64_t count = 20000;
  constexpr std::int64_t apart = 31;
  const auto job = number_of(surroundings, "SLURM_JOB_ID");
  if (!job)
    fail("srun sets no SLURM_JOB_ID here: set MASTER_PORT, or {}=HOST:PORT", place_variable);
  const std::int64_t step = number_of(surroundings, "SLURM_STEP_ID").value_or(0);
  return static_cast<int>(first + (apart * *job + step) % count);
}

std::string place_of_first_task(const Surroundings& surroundings) {
  auto host = surroundings.variable("MASTER_ADDR");
  if (!host) {
    const auto nodes = surroundings.variable("SLURM_STEP_NODELIST");
    if (!nodes)
      fail("srun sets no SLURM_STEP_NODELIST here: set MASTER_ADDR, or {}=HOST:PORT",
           place_variable);
    host = first_host(*nodes);
  }
  const bool has_port = surroundings.variable("MASTER_PORT").has_value();
  return place_at(*host, master_port(surroundings, has_port ? 0 : port_of_step(surroundings)));
}

/// The pods of an indexed job are named JOB-INDEX, and known to each other by JOB-INDEX.SERVICE
/// where a headless service is their subdomain.
std::string first_pod(const std::string& own, const std::string& index) {
  const std::string pod = own.substr(0, own.find('.'));
  const std::string domain = own.substr(pod.size());
  const std::string end = "-" + index;
  if (!pod.ends_with(end) || pod.size() == end.size())
    fail(
        "JOB_COMPLETION_INDEX is {}, but this host's name '{}' does not end with it, so that rank "
        "0's is not known: set MASTER_ADDR, or {}=HOST:PORT",
        index, pod, place_variable);
  if (domain.empty())
    fail(
        "the pod '{}' has no domain by which others find it: let a headless service be the pods' "
        "subdomain, or set MASTER_ADDR, or {}=HOST:PORT",
        pod, place_variable);
  return pod.substr(0, pod.size() - index.size()) + "0" + domain;
}

std::string place_of_first_pod(const Surroundings& surroundings) {
  auto host = surroundings.variable("MASTER_ADDR");
  if (!host)
    host = first_pod(surroundings.host_name(), *surroundings.variable("JOB_COMPLETION_INDEX"));
  return place_at(*host, master_port(surroundings, usual_port));
}

/// What a launcher says of this process.
struct Claim {
  const Launcher* launcher;
  int rank;
  std::optional<int> size;
};

/// Absent where the launcher is not there, or has started one process: a shell in a task of
/// Slurm's, or a notebook with WORLD_SIZE=1.
std::optional<Claim> claim_of(const Launcher& launcher, const Surroundings& surroundings) {
  if (!surroundings.variable(launcher.rank)) return std::nullopt;
  const std::optional<int> size = number_of(surroundings, launcher.size);
  if (!size && launcher.without_size == WithoutSize::is_no_launch) return std::nullopt;
  if (size && *size <= 1) return std::nullopt;
  const int rank = *number_of(surroundings, launcher.rank);
  if (!size && launcher.without_size == WithoutSize::is_refused)
    fail("{} is {}, but {} is not set: set both, or unset it to run all ranks in this process",
         launcher.rank, rank, launcher.size);
  return Claim{.launcher = &launcher, .rank = rank, .size = size};
}

std::vector<Claim> claims_of(const Surroundings& surroundings, const std::string& choice) {
  std::vector<Claim> claims;
  for (const Launcher& launcher : launchers) {
    if (choice != "auto" && choice != launcher.choice) continue;
    if (const auto claim = claim_of(launcher, surroundings)) claims.push_back(*claim);
  }
  return claims;
}

bool is_as_expected(const Claim& claim) {
  return claim.launcher->without_size == WithoutSize::is_as_expected;
}

bool is_srun(const Claim& claim) { return claim.launcher->place == place_of_first_task; }
bool is_pmi(const Claim& claim) {
  return std::string_view(claim.launcher->rank).starts_with("PMI");
}

/// Where nothing tells this process's rank, but something that there are several.
void check_no_rank_is_missing(const Surroundings& surroundings, const LaunchOptions& options,
                              const ExpectedLaunch& expected) {
  if (!options.rendezvous.empty())
    fail("--rendezvous {}: give --rank too, this process's own", options.rendezvous);
  if (options.launcher == "none") return;
  if (options.launcher != "auto")
    fail("--launcher {}: it has not started this process as one of several", options.launcher);
  if (surroundings.variable(place_variable) && expected.ranks != 1)
    fail("{} is set, but nothing tells this process's rank: give --rank, or unset it",
         place_variable);
  for (const Launcher& launcher : launchers) {
    if (launcher.without_size != WithoutSize::is_refused) continue;
    const auto size = number_of(surroundings, launcher.size);
    if (size.value_or(1) > 1 && !surroundings.variable(launcher.rank))
      fail("{} is {}, but {} is not set: set both, or unset it to run all ranks in this process",
           launcher.size, *size, launcher.rank);
  }
}

void check_size(const Claim& claim, const ExpectedLaunch& expected) {
  if (!claim.size || !expected.ranks || *claim.size == *expected.ranks) return;
  fail(
      "{} has {} ranks, but {} processes were started by {} ({}={}); start {}, or unset what is "
      "left over",
      expected.what, *expected.ranks, *claim.size, claim.launcher->name, claim.launcher->size,
      *claim.size, *expected.ranks);
}

void check_rank(const Claim& claim, const ExpectedLaunch& expected) {
  if (claim.size && claim.rank >= *claim.size)
    fail("{} is {}, but {} has ranks 0 to {}", claim.launcher->rank, claim.rank, expected.what,
         *claim.size - 1);
}

/// One that has started another number of processes counts other things: nodes, or pods.
void check_agreement(const Claim& taken, const Claim& other) {
  if (!taken.size || taken.size != other.size || taken.rank == other.rank) return;
  fail(
      "{} says that this is rank {}, {} that it is rank {}; unset what is left over, or say which "
      "counts with --launcher {} or {}",
      taken.launcher->rank, taken.rank, other.launcher->rank, other.rank, taken.launcher->choice,
      other.launcher->choice);
}

std::string place_by_launcher(const Claim& claim, const Surroundings& surroundings) {
  return claim.launcher->place == by_mpi ? "" : claim.launcher->place(surroundings);
}

std::optional<std::string> place_given(const Surroundings& surroundings,
                                       const LaunchOptions& options) {
  if (!options.rendezvous.empty()) return options.rendezvous;
  return surroundings.variable(place_variable);
}

/// The rank that the options give this process, or nothing where it is to run all of them.
std::optional<LaunchedRank> launch_by_options(const Surroundings& surroundings,
                                              const LaunchOptions& options,
                                              const ExpectedLaunch& expected) {
  const int rank = *options.rank;
  const int ranks = expected.ranks.value_or(1);
  if (rank < 0 || rank >= ranks)
    fail("--rank {}: {} has ranks 0 to {}", rank, expected.what, ranks - 1);
  if (const auto place = place_given(surroundings, options))
    return LaunchedRank{.rank = rank, .size = ranks, .rendezvous = *place};
  if (ranks > 1)
    fail(
        "--rank {}: one rank cannot run alone; leave --rank out, or start all {} ranks with "
        "--rendezvous HOST:PORT or mpirun",
        rank, ranks);
  return std::nullopt;
}

}  // namespace

Surroundings process_surroundings() {
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
  const auto host_name = []() -> std::string {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    addrinfo wanted{};
    wanted.ai_flags = AI_CANONNAME;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.data(), nullptr, &wanted, &found) != 0) return host.data();
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    return found->ai_canonname == nullptr ? host.data() : found->ai_canonname;
  };
  return {.variable = variable, .host_name = host_name};
}

std::string to_string(const LaunchedRank& launched) {
  const std::string size = launched.size ? fmt::format(" of {}", *launched.size) : "";
  const std::string by_mpi = launched.needs_no_mpi
                                 ? "connected by MPI (--launcher slurm would do without MPI)"
                                 : "connected by MPI";
  const std::string how =
      launched.rendezvous.empty() ? by_mpi : "meeting at " + launched.rendezvous;
  return fmt::format("started by {}: rank {}{}, {}", launched.launcher, launched.rank, size, how);
}

std::optional<LaunchedRank> find_launch(const Surroundings& surroundings,
                                        const LaunchOptions& options,
                                        const ExpectedLaunch& expected) {
  check_launcher(options.launcher);
  if (options.rank) return launch_by_options(surroundings, options, expected);
  std::vector<Claim> claims = claims_of(surroundings, options.launcher);
  // Each pod of a job runs the whole of what has one rank.
  if (expected.ranks == 1) std::erase_if(claims, is_as_expected);
  if (claims.empty()) {
    check_no_rank_is_missing(surroundings, options, expected);
    return std::nullopt;
  }
  for (const Claim& other : claims) check_agreement(claims.front(), other);
  Claim taken = claims.front();
  if (is_as_expected(taken)) taken.size = expected.ranks;
  if (is_as_expected(taken) && !taken.size)
    fail("{} does not tell how many ranks it has started; give --ranks", taken.launcher->name);
  check_size(taken, expected);
  check_rank(taken, expected);
  const auto place = place_given(surroundings, options);
  return LaunchedRank{.launcher = taken.launcher->name,
                      .rank = taken.rank,
                      .size = taken.size,
                      .rendezvous = place ? *place : place_by_launcher(taken, surroundings),
                      .needs_no_mpi = is_pmi(taken) && std::ranges::any_of(claims, is_srun)};
}

std::optional<int> presumed_rank(const Surroundings& surroundings, const LaunchOptions& options) {
  if (options.rank && place_given(surroundings, options)) return options.rank;
  try {
    const std::vector<Claim> claims = claims_of(surroundings, options.launcher);
    if (!claims.empty()) return claims.front().rank;
  } catch (const Error&) {
  }
  return std::nullopt;
}

void check_launcher(const std::string& launcher) {
  std::set<std::string> choices = {"auto", "none"};
  for (const Launcher& each : launchers) choices.insert(each.choice);
  if (!choices.contains(launcher))
    fail("--launcher {}: give one of {}", launcher, fmt::join(choices, ", "));
}

}  // namespace autopar::runtime
