#include "runtime/comm/ranks.h"

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
#include "base/work_signs.h"
#include "bundle/secret_file.h"
#include "runtime/comm/mpi_launch.h"
#include "runtime/comm/open_files.h"
#include "runtime/comm/tcp_communicator.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/comm/tls_network.h"
#include "runtime/first_error.h"

namespace autopar::runtime {
namespace {

using MachineName = std::array<char, 128>;

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
Endpoint parse_endpoint(const std::string& text) {
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
    fail("--rendezvous {}: give HOST:PORT, or [ADDRESS]:PORT for IPv6; ports are 1 to 65535", text);
  return {.host = host, .port = number};
}

/// What all ranks know: from the file that is given, the environment, or the bundle.
std::string secret_of(const LaunchOptions& options, const ExpectedRanks& expected) {
  if (!options.secret_file.empty()) return bundle::read_secret(options.secret_file);
  if (const char* const secret = std::getenv("AUTOPAR_SECRET")) {
    bundle::check_secret(secret, "AUTOPAR_SECRET");
    return secret;
  }
  if (expected.secret_file.empty())
    fail(
        "--rendezvous {}: ranks prove to each other that they know a secret; give all the same "
        "with AUTOPAR_SECRET or --secret-file",
        options.rendezvous);
  return bundle::read_secret(expected.secret_file);
}

}  // namespace

LocalRanks local_ranks(HostCommunicator& world) {
  const MachineName mine = machine_name();
  const std::vector<MachineName> all = gather_all(world, mine);
  const auto before = all.begin() + world.rank();
  LocalRanks local{.rank = static_cast<int>(std::count(all.begin(), before, mine)),
                   .count = static_cast<int>(std::ranges::count(all, mine))};
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] == mine) local.in_world.push_back(static_cast<int>(rank));
  return local;
}

Ranks::Ranks(std::vector<Rank> ranks)
    : ranks_(std::move(ranks)), threads_(std::make_unique<WorkerThreads>(ranks_.size())) {
  if (!are_all_here()) listener_ = std::make_unique<QuietListener>(*ranks_.front().world);
}

Ranks Ranks::in_threads(int count, std::chrono::milliseconds timeout) {
  std::vector<Rank> ranks;
  for (auto& world : make_thread_communicators(count, timeout)) {
    LocalRanks local{.rank = world->rank(), .count = count};
    local.in_world.resize(static_cast<std::size_t>(count));
    std::iota(local.in_world.begin(), local.in_world.end(), 0);
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

Ranks launch_ranks(const LaunchOptions& options, const ExpectedRanks& expected) {
  const bool has_rendezvous = !options.rendezvous.empty();
  if (has_rendezvous && !options.rank)
    fail("--rendezvous {}: give --rank too, this process's own", options.rendezvous);
  if (options.tls && !has_rendezvous)
    fail(
        "--tls: encrypts what goes between ranks that meet at --rendezvous HOST:PORT; ranks of one "
        "process send nothing, and MPI does not encrypt");
  const int rank = options.rank.value_or(0);
  if (rank < 0 || rank >= expected.count)
    fail("--rank {}: {} has ranks 0 to {}", rank, expected.what, expected.count - 1);
  if (options.rank && !has_rendezvous && expected.count > 1)
    fail(
        "--rank {}: one rank cannot run alone; leave --rank out, or start all {} ranks with "
        "--rendezvous HOST:PORT or mpirun",
        rank, expected.count);
  if (has_rendezvous) {
    if (expected.count > 1) provide_open_files(expected.count);
    return Ranks::one_of(
        make_tcp_communicator({.rank = rank,
                               .size = expected.count,
                               .meeting_point = parse_endpoint(options.rendezvous),
                               .bundle_digest = expected.digest(),
                               .secret = secret_of(options, expected),
                               .timeout = options.timeout,
                               .run_timeout = {},
                               .network = options.tls ? &tls_network() : &system_network()}));
  }
  if (options.uses_mpi && started_by_launcher())
    return Ranks::one_of(make_mpi_communicator(options.timeout));
  return Ranks::in_threads(expected.count, options.timeout);
}

}  // namespace autopar::runtime
