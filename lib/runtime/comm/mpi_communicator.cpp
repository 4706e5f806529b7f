#include "runtime/comm/mpi_launch.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/transport_communicator.h"

namespace autopar::runtime {

namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI: {} failed: {}", what, std::string_view(text, static_cast<std::size_t>(length)));
}

/// What a process's communicators share. Three threads may call (see Communicator): where MPI
/// allows one at a time, each call waits for its turn, which is short, as no call of ours blocks.
struct MpiProcess {
  bool takes_turns = false;
  std::mutex mutex;
  std::atomic<bool> is_aborted = false;

  template <typename Call>
  int call(const Call& mpi) {
    if (!takes_turns) return mpi();
    const std::lock_guard lock(mutex);
    return mpi();
  }
};

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
  MpiCommunicator(std::shared_ptr<MpiProcess> process, MPI_Comm comm,
                  std::chrono::milliseconds timeout, bool is_world)
      : process_(std::move(process)), comm_(comm), timeout_(timeout), is_world_(is_world) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0 || process_->is_aborted) return;
    if (is_world_) {
      MPI_Finalize();
    } else {
      MPI_Comm_free(&comm_);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &all), "the group");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members),
          "the subgroup");
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_create_group(comm_, members, /*tag=*/ranks.front(), &made), "the subgroup");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return std::make_unique<MpiCommunicator>(process_, made, timeout_, /*is_world=*/false);
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    std::vector<MPI_Request> requests(1);
    check(process_->call([&] { return MPI_Ibarrier(comm_, requests.data()); }), "barrier");
    wait("barrier", timeout.value_or(timeout_), all_others, requests);
  }

  /// The length goes ahead, so that a wrong one is known before anything is written.
  void send(const std::byte* data, std::int64_t bytes, int to) override {
    const std::string peer = fmt::format("rank(s) {}; they", to);
    std::vector<MPI_Request> requests;
    post("a send", MPI_Isend, reinterpret_cast<const std::byte*>(&bytes), sizeof bytes, to,
         length_tag, requests);
    wait("a send", timeout_, peer, requests);
    post("a send", MPI_Isend, data, bytes, to, message_tag, requests);
    wait("a send", timeout_, peer, requests);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    const std::string peer = fmt::format("rank(s) {}; they", from);
    std::vector<MPI_Request> requests;
    std::int64_t sent = 0;
    post("a receive", MPI_Irecv, reinterpret_cast<std::byte*>(&sent), sizeof sent, from, length_tag,
         requests);
    wait("a receive", timeout_, peer, requests);
    if (sent != bytes)
      fail("rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
           from, sent, rank_, bytes);
    post("a receive", MPI_Irecv, out, bytes, from, message_tag, requests);
    wait("a receive", timeout_, peer, requests);
  }

  /// Nothing is known: where a rank has failed, the launcher ends this one.
  void check_members() override {}

  /// The process is about to end without finalising; the launcher then ends the others. Its own
  /// threads end their waits.
  void abort() noexcept override { process_->is_aborted = true; }

 private:
  static constexpr int block_tag = 0;
  static constexpr int length_tag = 1;
  static constexpr int message_tag = 2;
  static constexpr std::int64_t longest_part = std::int64_t{1} << 30;  ///< that MPI 3 can count
  static constexpr std::string_view all_others = "the other ranks; some";

  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    provide_memory(receives);
    std::vector<MPI_Request> requests;
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
    wait(what, timeout_, all_others, requests);
  }

  /// `begin_transfer` is MPI_Isend or MPI_Irecv, for each part of a block; an empty one is one
  /// part.
  template <typename Begin, typename Byte>
  void post(const char* what, Begin begin_transfer, Byte* data, std::int64_t bytes, int peer,
            int tag, std::vector<MPI_Request>& requests) {
    std::int64_t begin = 0;
    do {
      const auto count = static_cast<int>(std::min(bytes - begin, longest_part));
      MPI_Request* request = &requests.emplace_back();
      const auto begin_part = [&] {
        return begin_transfer(data + begin, count, MPI_BYTE, peer, tag, comm_, request);
      };
      check(process_->call(begin_part), what);
      begin += count;
    } while (begin < bytes);
  }

  /// Until all requests are done, which then are no more. Polls, since MPI's own waits have no
  /// deadline. `awaited` is who did not come, for a message.
  void wait(const char* what, std::chrono::milliseconds timeout, std::string_view awaited,
            std::vector<MPI_Request>& requests) const {
    const auto began = std::chrono::steady_clock::now();
    const auto count = static_cast<int>(requests.size());
    int done = 0;
    while (true) {
      check(process_->call(
                [&] { return MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE); }),
            what);
      if (done != 0) break;
      if (process_->is_aborted)
        throw GivenUp(fmt::format("rank {}: {} was given up: this rank failed", rank_, what));
      const auto waited = std::chrono::steady_clock::now() - began;
      if (waited > timeout)
        fail("rank {}: {} waited {} ms for {} did not come", rank_, what, timeout.count(), awaited);
      pause(waited);
    }
    requests.clear();
  }

  std::shared_ptr<MpiProcess> process_;
  MPI_Comm comm_;
  std::chrono::milliseconds timeout_;
  bool is_world_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

}  // namespace autopar::runtime

autopar::runtime::HostCommunicator* autopar_make_mpi_communicator(
    std::int64_t timeout_milliseconds) {
  using namespace autopar::runtime;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "the start");
  const auto process = std::make_shared<MpiProcess>();
  process->takes_turns = provided < MPI_THREAD_MULTIPLE;
  return new MpiCommunicator(process, MPI_COMM_WORLD,
                             std::chrono::milliseconds(timeout_milliseconds), /*is_world=*/true);
}
