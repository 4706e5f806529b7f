#include "runtime/comm/ranks.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numa_nodes.h"
#include "base/usable_cores.h"
#include "base/work_signs.h"
#include "bundle/secret_file.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/mpi_launch.h"
#include "runtime/comm/open_files.h"
#include "runtime/comm/tcp_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/comm/tls_network.h"
#include "runtime/first_error.h"

namespace autopar::runtime {
namespace {

using MachineName = std::array<char, 128>;

/// Where a rank runs.
struct RankPlace {
  MachineName machine{};
  std::array<std::uint64_t, 16> cores{};  ///< a bit for each that it may use
  std::uint64_t cores_of_quota = 0;
};

/// Machines may have one host name; the kernel's boot id is its own. Containers count as machines.
MachineName machine_name() {
  std::array<char, 65> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  const std::string name = std::string(host.data()) + " " + boot_id;
  MachineName padded{};
  std::copy_n(name.begin(), std::min(name.size(), padded.size()), padded.begin());
  return padded;
}

constexpr std::size_t no_quota = 1 << 20;

RankPlace own_place() {
  RankPlace place{.machine = machine_name(), .cores_of_quota = cores_of_quota(no_quota)};
  for (const int core : cores_of_process()) {
    const auto bit = static_cast<std::size_t>(core);
    if (bit / 64 < place.cores.size()) place.cores[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
  return place;
}

CoreSet cores_of(const RankPlace& place) {
  CoreSet cores;
  for (std::size_t bit = 0; bit < 64 * place.cores.size(); ++bit)
    if ((place.cores[bit / 64] >> bit % 64 & 1) != 0) cores.push_back(static_cast<int>(bit));
  return cores;
}

/// That a rank has failed is the next task's error.
class QuietListener final : public WorkListener {
 public:
  explicit QuietListener(HostCommunicator& world) : world_(world) {}
  void note_work() override {
    try {
      world_.note_work();
    } catch (const Error&) {
    }
  }

 private:
  HostCommunicator& world_;
};

/// HOST:PORT; an IPv6 address has brackets.
Endpoint parse_endpoint(const std::string& label, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_host = !host.empty() && host.find_first_of("[]/ ") == std::string::npos &&
                       (host.find(':') != std::string::npos) == has_brackets;
  std::uint16_t number = 0;
  const char* const end = port.data() + port.size();
  const auto [rest, error] = std::from_chars(port.data(), end, number);
  if (!is_host || error != std::errc() || rest != end || number == 0)
    fail("{} {}: give HOST:PORT, or [ADDRESS]:PORT for IPv6; ports are 1 to 65535", label, text);
  return {.host = host, .port = number};
}

/// What all ranks know: from the file that is given, the environment, or the bundle.
std::string secret_of(const LaunchOptions& options, const ExpectedRanks& expected,
                      const std::string& place) {
  if (!options.secret_file.empty()) return bundle::read_secret(options.secret_file);
  if (const char* const secret = std::getenv("AUTOPAR_SECRET")) {
    bundle::check_secret(secret, "AUTOPAR_SECRET");
    return secret;
  }
  if (expected.secret_file.empty())
    fail(
        "ranks that meet at {} prove to each other that they know a secret; give all the same "
        "with AUTOPAR_SECRET or --secret-file",
        place);
  return bundle::read_secret(expected.secret_file);
}

std::unique_ptr<HostCommunicator> meet_others(const LaunchedRank& launched,
                                              const LaunchOptions& options,
                                              const ExpectedRanks& expected) {
  const int size = launched.size.value_or(expected.count);
  if (size > 1) provide_open_files(size);
  const std::string label = options.rendezvous.empty() ? "the rendezvous" : "--rendezvous";
  return make_tcp_communicator({.rank = launched.rank,
                                .size = size,
                                .meeting_point = parse_endpoint(label, launched.rendezvous),
                                .bundle_digest = expected.digest(),
                                .secret = secret_of(options, expected, launched.rendezvous),
                                .timeout = options.timeout,
                                .run_timeout = {},
                                .network = options.tls ? &tls_network() : &system_network()});
}

std::unique_ptr<HostCommunicator> connect_by_mpi(const LaunchedRank& launched,
                                                 std::chrono::milliseconds timeout) {
  auto world = make_mpi_communicator(timeout);
  if (launched.size && world->size() != *launched.size)
    fail(
        "{} has started {} processes, but MPI knows of {}: it is another MPI than autopar's; set "
        "AUTOPAR_RENDEZVOUS=HOST:PORT to meet without MPI",
        launched.launcher, *launched.size, world->size());
  return world;
}

}  // namespace

void share_cores(LocalRanks& local, std::vector<CoreSet> cores, std::size_t quota,
                 const std::vector<CoreSet>& nodes) {
  const std::size_t rank = at(local.rank);
  if (cores[rank].empty()) return;
  if (std::ranges::count(cores, cores.front()) == std::ssize(cores)) {
    std::vector<CoreSet> spread = spread_over_nodes(cores.front(), nodes, cores.size());
    if (!spread.empty()) {
      local.cores_of_node = spread[rank];
      cores = std::move(spread);
    }
  }
  // A quota is of a control group, which the ranks of one machine share.
  const std::size_t of_quota = std::max<std::size_t>(1, quota / cores.size());
  local.cores = static_cast<int>(std::min(share_of_cores(cores, rank), of_quota));
}

LocalRanks local_ranks(HostCommunicator& world) {
  const RankPlace mine = own_place();
  const std::vector<RankPlace> all = gather_all(world, mine);
  LocalRanks local;
  std::vector<CoreSet> cores;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (all[at(rank)].machine != mine.machine) continue;
    if (rank == world.rank()) local.rank = static_cast<int>(local.in_world.size());
    local.in_world.push_back(rank);
    cores.push_back(cores_of(all[at(rank)]));
  }
  local.count = static_cast<int>(local.in_world.size());
  share_cores(local, std::move(cores), std::size_t{mine.cores_of_quota}, numa_nodes());
  return local;
}

Ranks::Ranks(std::vector<Rank> ranks)
    : ranks_(std::move(ranks)), threads_(std::make_unique<WorkerThreads>(ranks_.size())) {
  if (!are_all_here()) listener_ = std::make_unique<QuietListener>(*ranks_.front().world);
}

Ranks Ranks::in_threads(int count, std::chrono::milliseconds timeout) {
  std::vector<Rank> ranks;
  const std::vector<CoreSet> cores(static_cast<std::size_t>(count), cores_of_process());
  const std::size_t quota = cores_of_quota(no_quota);
  const std::vector<CoreSet> nodes = numa_nodes();
  for (auto& world : make_thread_communicators(count, timeout)) {
    LocalRanks local{.rank = world->rank(), .count = count};
    local.in_world.resize(static_cast<std::size_t>(count));
    std::iota(local.in_world.begin(), local.in_world.end(), 0);
    share_cores(local, cores, quota, nodes);
    ranks.push_back({std::move(world), local});
  }
  return Ranks(std::move(ranks));
}

Ranks Ranks::one_of(std::unique_ptr<HostCommunicator> world) {
  const LocalRanks local = local_ranks(*world);
  std::vector<Rank> ranks;
  ranks.push_back({std::move(world), local});
  return Ranks(std::move(ranks));
}

void Ranks::run_as_rank(const Task& task) {
  if (has_failed_) fail("a rank has failed before, and with it all ranks; start them again");
  FirstError error;
  const WorkerThreads::Task run_rank = [&](std::size_t worker) {
    const Rank& rank = ranks_[worker];
    try {
      const WorkScope work(rank.world.get());
      task(*rank.world, rank.local);
    } catch (...) {
      error.store();
      rank.world->abort();
    }
  };
  threads_->start(run_rank);
  threads_->wait();
  has_failed_ = true;
  error.rethrow();
  has_failed_ = false;
}

void Ranks::abort() noexcept {
  for (const Rank& rank : ranks_) rank.world->abort();
}

std::unique_ptr<HostCommunicator> meet_at_rendezvous(const LaunchOptions& options,
                                                     const ExpectedRanks& expected) {
  return meet_others(
      {.rank = options.rank.value(), .size = expected.count, .rendezvous = options.rendezvous},
      options, expected);
}

Ranks launch_ranks(const LaunchOptions& options, const ExpectedRanks& expected) {
  const bool is_given = expected.is_given || options.rank;
  const std::optional<LaunchedRank> launched =
      find_launch(process_surroundings(), options,
                  {.what = expected.what,
                   .ranks = is_given ? std::optional<int>(expected.count) : std::nullopt});
  const bool meets = launched && !launched->rendezvous.empty();
  if (options.tls && !meets)
    fail(
        "--tls: encrypts what goes between ranks that meet at --rendezvous HOST:PORT; ranks of one "
        "process send nothing, and MPI does not encrypt");
  if (!launched) return Ranks::in_threads(expected.count, options.timeout);
  if (!launched->launcher.empty()) spdlog::info("{}", to_string(*launched));
  return Ranks::one_of(meets ? meet_others(*launched, options, expected)
                             : connect_by_mpi(*launched, options.timeout));
}

}  // namespace autopar::runtime
