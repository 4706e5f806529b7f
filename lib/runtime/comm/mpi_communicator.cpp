#include "runtime/comm/mpi_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/signs_of_life.h"
#include "runtime/comm/transport_communicator.h"
#include "runtime/comm/watchdog.h"

namespace autopar::runtime {

namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI: {} failed: {}", what, std::string_view(text, static_cast<std::size_t>(length)));
}

using Clock = std::chrono::steady_clock;

/// Tags of the world's messages.
constexpr int block_tag = 0;
constexpr int length_tag = 1;
constexpr int message_tag = 2;
constexpr int sign_tag = 3;
constexpr int meeting_tag = 4;
/// Each group is made under this and its first member's rank: Open MPI sends what makes it among
/// our messages, where a tag in common would let it be taken for a sign.
constexpr int first_group_tag = 16;

/// What a process's communicators share. Three threads may call (see Communicator): where MPI
/// allows one at a time, each call waits for its turn, which is short, as no call of ours blocks.
class MpiProcess {
 public:
  MpiProcess(bool takes_turns, std::chrono::milliseconds timeout)
      : takes_turns_(takes_turns),
        timeout_(timeout),
        rank_(number_by(MPI_Comm_rank)),
        signs_(number_by(MPI_Comm_size)),
        told_(static_cast<std::size_t>(signs_.size())) {}

  std::atomic<bool> is_aborted = false;

  template <typename Call>
  int call(const Call& mpi) {
    if (!takes_turns_) return mpi();
    const std::lock_guard lock(calls_);
    return mpi();
  }

  int rank() const { return rank_; }
  const SignsOfLife& signs() const { return signs_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// Tells all others, unless they have been told a short while ago; and hears what they told.
  void tell(Sign sign) {
    const auto now = Clock::now();
    SteadyTime last = sign == Sign::works ? last_work_told_ : last_told_;
    if (now - last < sign_interval(timeout_)) return;
    if (sign == Sign::works) last_work_told_ = now;
    last_told_ = now;
    const std::lock_guard lock(telling_);
    hear_signs();
    for (int peer = 0; peer < signs_.size(); ++peer)
      if (peer != rank_) tell(sign, peer);
  }

  void hear() {
    const std::lock_guard lock(telling_);
    hear_signs();
  }

  /// Before MPI ends: what was told need not arrive any more.
  void forget_told() {
    for (Told& told : told_) {
      if (told.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&told.request);
      MPI_Request_free(&told.request);
    }
  }

 private:
  struct Told {
    Sign sign = Sign::works;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  template <typename Ask>
  static int number_by(Ask ask) {
    int number = 0;
    check(ask(MPI_COMM_WORLD, &number), "the world");
    return number;
  }

  /// One that has not taken the last sign yet gets no other.
  void tell(Sign sign, int peer) {
    Told& told = told_[at(peer)];
    int is_done = 0;
    check(call([&] { return MPI_Test(&told.request, &is_done, MPI_STATUS_IGNORE); }), "a sign");
    if (is_done == 0) return;
    told.sign = sign;
    const auto begin = [&] {
      return MPI_Isend(&told.sign, sizeof told.sign, MPI_BYTE, peer, sign_tag, MPI_COMM_WORLD,
                       &told.request);
    };
    check(call(begin), "a sign");
  }

  void hear_signs() {
    while (true) {
      int has_come = 0;
      MPI_Status status;
      check(call([&] {
              return MPI_Iprobe(MPI_ANY_SOURCE, sign_tag, MPI_COMM_WORLD, &has_come, &status);
            }),
            "a sign");
      if (has_come == 0) return;
      Sign sign{};
      check(call([&] {
              return MPI_Recv(&sign, sizeof sign, MPI_BYTE, status.MPI_SOURCE, sign_tag,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }),
            "a sign");
      signs_.hear(status.MPI_SOURCE, sign, Clock::now());
    }
  }

  bool takes_turns_;
  std::chrono::milliseconds timeout_;
  int rank_;
  SignsOfLife signs_;
  std::mutex calls_;
  std::mutex telling_;
  std::atomic<SteadyTime> last_told_{};
  std::atomic<SteadyTime> last_work_told_{};
  std::vector<Told> told_;  ///< by rank
};

/// As the launcher tells it, before MPI does; -1 where it does not.
int launched_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const number = std::getenv(variable)) return std::atoi(number);
  return -1;
}

/// Why the start failed, of which MPI tells nothing itself.
std::string late_start(int rank, std::chrono::milliseconds timeout) {
  return fmt::format(
      "{}: MPI_Init did not end within {} ms: another rank hangs, was stopped or was not started; "
      "give a longer --timeout where ranks start late",
      rank < 0 ? "this rank" : fmt::format("rank {}", rank), timeout.count());
}

/// The first waits are short; for the rest others may need the core, and naps grow with the wait.
/// Yielding would not do: beside processes that never wait it costs a whole slice of their time.
void pause(std::chrono::steady_clock::duration waited) {
  constexpr auto awake = std::chrono::microseconds(50);
  if (waited < awake) return;
  // Who waits for a second waits for a request that nobody has made yet.
  const auto longest = waited < std::chrono::seconds(1) ? std::chrono::microseconds(200)
                                                        : std::chrono::microseconds(2000);
  // Naps of a thread end 50 us late unless it asks for better.
  [[maybe_unused]] thread_local const int asked = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(waited / 10, longest));
}

/// Reductions are not left to MPI: it has no half types, and its order, and with it the result's
/// last bits, may differ between ranks.
class MpiCommunicator final : public TransportCommunicator {
 public:
  /// `world_ranks`: of the group's members, in order.
  MpiCommunicator(std::shared_ptr<MpiProcess> process, MPI_Comm comm, std::vector<int> world_ranks)
      : process_(std::move(process)),
        comm_(comm),
        world_ranks_(std::move(world_ranks)),
        is_world_(comm == MPI_COMM_WORLD) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0 || process_->is_aborted) return;
    if (is_world_) {
      leave();
    } else {
      MPI_Comm_free(&comm_);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    meet(ranks);
    std::vector<int> world_ranks;
    for (const int rank : ranks) world_ranks.push_back(world_ranks_[at(rank)]);
    const Watchdog watchdog(
        process_->timeout(),
        fmt::format("rank {}: MPI did not make a group of ranks {} within {} "
                    "ms: one of them hangs or was stopped",
                    process_->rank(), fmt::join(world_ranks, ", "), process_->timeout().count()));
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &all), "the group");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members),
          "the subgroup");
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_create_group(comm_, members, first_group_tag + ranks.front(), &made),
          "the subgroup");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return std::make_unique<MpiCommunicator>(process_, made, std::move(world_ranks));
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    Requests requests{.handles = {MPI_REQUEST_NULL}, .peers = {everybody}};
    check(process_->call([&] { return MPI_Ibarrier(comm_, requests.handles.data()); }), "barrier");
    Vigil vigil = begin_wait(timeout.value_or(process_->timeout()));
    wait("barrier", vigil, requests, timeout ? std::nullopt : std::optional(Sign::waits));
  }

  /// The length goes ahead, so that a wrong one is known before anything is written.
  void send(const std::byte* data, std::int64_t bytes, int to) override {
    Requests requests;
    post("a send", MPI_Isend, reinterpret_cast<const std::byte*>(&bytes), sizeof bytes, to,
         length_tag, requests);
    wait("a send", requests);
    post("a send", MPI_Isend, data, bytes, to, message_tag, requests);
    wait("a send", requests);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    Requests requests;
    std::int64_t sent = 0;
    post("a receive", MPI_Irecv, reinterpret_cast<std::byte*>(&sent), sizeof sent, from, length_tag,
         requests);
    wait("a receive", requests);
    if (sent != bytes)
      fail("rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
           from, sent, rank_, bytes);
    post("a receive", MPI_Irecv, out, bytes, from, message_tag, requests);
    wait("a receive", requests);
  }

  void note_work() override {
    if (process_->is_aborted)
      throw GivenUp(fmt::format("rank {}: the work was given up: this rank failed", rank_));
    process_->tell(Sign::works);
  }

  /// Nothing is known: where a rank has failed, the launcher ends this one.
  void check_members() override {}

  /// The process is about to end without finalising; the launcher then ends the others. Its own
  /// threads end their waits.
  void abort() noexcept override { process_->is_aborted = true; }

 private:
  /// What is under way, and with whom, by rank of the group.
  struct Requests {
    std::vector<MPI_Request> handles = {};
    std::vector<int> peers = {};
  };

  static constexpr int everybody = -1;
  static constexpr std::int64_t longest_part = std::int64_t{1} << 30;  ///< that MPI 3 can count

  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    provide_memory(receives);
    Requests requests;
    for (int peer = 0; peer < size_; ++peer) {
      const auto& [out, bytes, place] = receives[at(peer)];
      if (peer != rank_ && bytes != no_block)
        post("a receive", MPI_Irecv, out, bytes, peer, block_tag, requests);
    }
    for (int peer = 0; peer < size_; ++peer) {
      const auto& [data, bytes] = sends[at(peer)];
      if (peer != rank_ && bytes != no_block)
        post("a send", MPI_Isend, data, bytes, peer, block_tag, requests);
    }
    wait(what, requests);
  }

  /// `begin_transfer` is MPI_Isend or MPI_Irecv, for each part of a block; an empty one is one
  /// part.
  template <typename Begin, typename Byte>
  void post(const char* what, Begin begin_transfer, Byte* data, std::int64_t bytes, int peer,
            int tag, Requests& requests) {
    std::int64_t begin = 0;
    do {
      const auto count = static_cast<int>(std::min(bytes - begin, longest_part));
      MPI_Request* request = &requests.handles.emplace_back();
      requests.peers.push_back(peer);
      const auto begin_part = [&] {
        return begin_transfer(data + begin, count, MPI_BYTE, peer, tag, comm_, request);
      };
      check(process_->call(begin_part), what);
      begin += count;
    } while (begin < bytes);
  }

  /// MPI makes groups without a deadline: it is asked when all members are here.
  void meet(std::span<const int> ranks) {
    Requests requests;
    std::byte nothing{};
    for (const int peer : ranks) {
      if (peer == rank_) continue;
      post("a group", MPI_Irecv, &nothing, 0, peer, meeting_tag, requests);
      post("a group", MPI_Isend, &nothing, 0, peer, meeting_tag, requests);
    }
    wait("a group", requests);
  }

  Vigil begin_wait(std::chrono::milliseconds timeout,
                   Vigil::Leavers leavers = Vigil::Leavers::are_missed) const {
    return {process_->signs(), process_->rank(), timeout, Clock::now(), leavers};
  }

  void wait(const char* what, Requests& requests) {
    Vigil vigil = begin_wait(process_->timeout());
    wait(what, vigil, requests, Sign::waits);
  }

  /// Until all requests are done, which then are no more. Polls, since MPI's own waits have no
  /// deadline. `told`: what the others hear of this rank meanwhile.
  void wait(const char* what, Vigil& vigil, Requests& requests, std::optional<Sign> told) {
    const auto began = Clock::now();
    const auto count = static_cast<int>(requests.handles.size());
    int done = 0;
    while (true) {
      check(process_->call([&] {
        return MPI_Testall(count, requests.handles.data(), &done, MPI_STATUSES_IGNORE);
      }),
            what);
      if (done != 0) break;
      if (process_->is_aborted)
        throw GivenUp(fmt::format("rank {}: {} was given up: this rank failed", rank_, what));
      const auto now = Clock::now();
      if (now >= vigil.next_look()) {
        if (told) process_->tell(*told);
        process_->hear();
        const std::vector<int> blamed = vigil.to_blame(missing(requests), now);
        if (!blamed.empty()) throw Error(vigil.absence(what, blamed, now));
      }
      pause(now - began);
    }
    requests = {};
  }

  /// World ranks, in order, with whom something is still under way.
  std::vector<int> missing(const Requests& requests) {
    std::set<int> ranks;
    for (std::size_t i = 0; i < requests.handles.size(); ++i) {
      int is_done = 0;
      check(process_->call([&] {
        return MPI_Request_get_status(requests.handles[i], &is_done, MPI_STATUS_IGNORE);
      }),
            "a wait");
      if (is_done != 0) continue;
      if (requests.peers[i] != everybody)
        ranks.insert(world_ranks_[at(requests.peers[i])]);
      else
        ranks.insert(world_ranks_.begin(), world_ranks_.end());
    }
    ranks.erase(process_->rank());
    return {ranks.begin(), ranks.end()};
  }

  /// MPI ends when all ranks have left, and would wait for one that hangs for ever.
  void leave() noexcept {
    try {
      Requests requests{.handles = {MPI_REQUEST_NULL}, .peers = {everybody}};
      check(process_->call([&] { return MPI_Ibarrier(comm_, requests.handles.data()); }),
            "the end");
      Vigil vigil = begin_wait(process_->timeout(), Vigil::Leavers::are_well);
      wait("the end", vigil, requests, Sign::leaves);
      process_->hear();
      process_->forget_told();
    } catch (const std::exception& error) {
      end_process(error.what());
    }
    const Watchdog watchdog(process_->timeout(),
                            fmt::format("rank {}: MPI did not end within {} ms: another rank hangs "
                                        "or was stopped",
                                        rank_, process_->timeout().count()));
    MPI_Finalize();
  }

  std::shared_ptr<MpiProcess> process_;
  MPI_Comm comm_;
  std::vector<int> world_ranks_;  ///< by rank of the group
  bool is_world_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

}  // namespace autopar::runtime

autopar::runtime::HostCommunicator* autopar_make_mpi_communicator(
    std::int64_t timeout_milliseconds) {
  using namespace autopar::runtime;
  const std::chrono::milliseconds timeout(timeout_milliseconds);
  int provided = 0;
  {
    // Launchers cope better with ranks that end one after another (Open MPI's may hang else).
    const int rank = launched_rank();
    const Watchdog watchdog(timeout + std::max(rank, 0) % 8 * std::chrono::milliseconds(100),
                            late_start(rank, timeout));
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "the start");
  }
  const auto process = std::make_shared<MpiProcess>(provided < MPI_THREAD_MULTIPLE, timeout);
  std::vector<int> all(static_cast<std::size_t>(process->signs().size()));
  std::iota(all.begin(), all.end(), 0);
  return new MpiCommunicator(process, MPI_COMM_WORLD, std::move(all));
}
