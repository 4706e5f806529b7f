#include "runtime/comm/mpi_communicator.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/exchanging_communicator.h"

namespace autopar::runtime {

namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI: {} failed: {}", what, std::string_view(text, static_cast<std::size_t>(length)));
}

int as_int(std::int64_t count, const char* what) {
  if (count > std::numeric_limits<int>::max()) {
    fail("MPI: {} of {} bytes at once is too much for MPI 3", what, count);
  }
  return static_cast<int>(count);
}

/// Blocks of bytes one after another, as MPI's v-collectives take them.
struct BlockLayout {
  std::vector<int> counts;
  std::vector<int> offsets;

  BlockLayout(std::span<const std::int64_t> block_bytes, const char* what) {
    std::int64_t offset = 0;
    for (const std::int64_t bytes : block_bytes) {
      counts.push_back(as_int(bytes, what));
      offsets.push_back(as_int(offset, what));
      offset += bytes;
    }
    as_int(offset, what);
  }
};

/// What a process's communicators share. Three threads may call (see Communicator): where MPI
/// allows one at a time, each call waits for its turn, which is short, as no call of ours blocks.
class MpiProcess {
 public:
  explicit MpiProcess(bool takes_turns) : takes_turns_(takes_turns) {}

  template <typename Call>
  int call(const Call& mpi) {
    if (!takes_turns_) return mpi();
    const std::lock_guard lock(mutex_);
    return mpi();
  }

  void abort() { is_aborted_ = true; }
  bool is_aborted() const { return is_aborted_; }

 private:
  bool takes_turns_;
  std::mutex mutex_;
  std::atomic<bool> is_aborted_ = false;
};

/// The first waits are short; for the rest others may need the core, and naps grow with the wait.
/// To yield would not do: beside processes that never wait it costs a whole slice of their time.
void pause(std::chrono::steady_clock::duration waited) {
  constexpr auto awake = std::chrono::microseconds(50);
  constexpr auto longest = std::chrono::microseconds(200);
  if (waited < awake) return;
  // Naps of a thread end 50 us late unless it asks for better.
  [[maybe_unused]] thread_local const int asked = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(waited / 10, longest));
}

/// Reductions are not left to MPI: it has no half types, and its order, and with it the result's
/// last bits, may differ between ranks.
class MpiCommunicator final : public ExchangingCommunicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiProcess> process, MPI_Comm comm,
                  std::chrono::milliseconds timeout, bool is_world)
      : process_(std::move(process)), comm_(comm), timeout_(timeout), is_world_(is_world) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) return;
    if (is_world_) {
      MPI_Finalize();
    } else {
      MPI_Comm_free(&comm_);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override {
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

  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    const int count = as_int(bytes, "broadcast");
    run("broadcast", timeout_, [&](MPI_Request* request) {
      return MPI_Ibcast(data, count, MPI_BYTE, root, comm_, request);
    });
  }

  void barrier() override { barrier(timeout_); }
  void barrier(std::chrono::milliseconds timeout) override {
    run("barrier", timeout, [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
  }

  /// The length goes ahead, so that a wrong one is known before anything is written; then the data,
  /// in parts that MPI 3 can count.
  void send(const std::byte* data, std::int64_t bytes, int to) override {
    const std::string peer = fmt::format("rank(s) {}; they", to);
    const auto send_part = [&](const void* part, int count, int tag) {
      run("a send", timeout_, peer, [&](MPI_Request* request) {
        return MPI_Isend(part, count, MPI_BYTE, to, tag, comm_, request);
      });
    };
    send_part(&bytes, sizeof bytes, length_tag);
    for (std::int64_t sent = 0; sent < bytes; sent += longest_part)
      send_part(data + sent, static_cast<int>(std::min(bytes - sent, longest_part)), data_tag);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    const std::string peer = fmt::format("rank(s) {}; they", from);
    const auto receive_part = [&](void* part, int count, int tag) {
      run("a receive", timeout_, peer, [&](MPI_Request* request) {
        return MPI_Irecv(part, count, MPI_BYTE, from, tag, comm_, request);
      });
    };
    std::int64_t sent = 0;
    receive_part(&sent, sizeof sent, length_tag);
    if (sent != bytes) {
      fail("rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
           from, sent, rank_, bytes);
    }
    for (std::int64_t received = 0; received < bytes; received += longest_part)
      receive_part(out + received, static_cast<int>(std::min(bytes - received, longest_part)),
                   data_tag);
  }

  /// Nothing is known: where a rank has failed, the launcher ends this one.
  void check_members() override {}

  /// The process is about to end without finalising; the launcher then ends the others. Its own
  /// threads end their waits.
  void abort() noexcept override { process_->abort(); }

 private:
  static constexpr int length_tag = 1;
  static constexpr int data_tag = 2;
  static constexpr std::int64_t longest_part = std::int64_t{1} << 30;

  void gather(const std::byte* in, std::byte* out, std::span<const std::int64_t> block_bytes,
              const char* what) override {
    const BlockLayout layout(block_bytes, what);
    run(what, timeout_, [&](MPI_Request* request) {
      return MPI_Iallgatherv(in, layout.counts[static_cast<std::size_t>(rank_)], MPI_BYTE, out,
                             layout.counts.data(), layout.offsets.data(), MPI_BYTE, comm_, request);
    });
  }

  void exchange(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                std::span<const std::int64_t> receive_bytes, const char* what) override {
    const BlockLayout send(send_bytes, what);
    const BlockLayout receive(receive_bytes, what);
    run(what, timeout_, [&](MPI_Request* request) {
      return MPI_Ialltoallv(in, send.counts.data(), send.offsets.data(), MPI_BYTE, out,
                            receive.counts.data(), receive.offsets.data(), MPI_BYTE, comm_,
                            request);
    });
  }

  template <typename Start>
  void run(const char* what, std::chrono::milliseconds timeout, const Start& start) const {
    run(what, timeout, "the other ranks; some", start);
  }

  /// `start(MPI_Request*)` begins it; returns when it is done. Polls, since MPI's own waits have no
  /// deadline. `awaited` is who did not come, for a message.
  template <typename Start>
  void run(const char* what, std::chrono::milliseconds timeout, std::string_view awaited,
           const Start& start) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(process_->call([&] { return start(&request); }), what);
    const auto began = std::chrono::steady_clock::now();
    int done = 0;
    while (true) {
      check(process_->call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); }), what);
      if (done != 0) return;
      if (process_->is_aborted()) {
        throw GivenUp(fmt::format("rank {}: {} was given up: this rank failed", rank_, what));
      }
      const auto waited = std::chrono::steady_clock::now() - began;
      if (waited > timeout) {
        fail("rank {}: {} waited {} ms for {} did not come", rank_, what, timeout.count(), awaited);
      }
      pause(waited);
    }
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

autopar::runtime::Communicator* autopar_make_mpi_communicator(std::int64_t timeout_milliseconds) {
  using namespace autopar::runtime;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "the start");
  return new MpiCommunicator(std::make_shared<MpiProcess>(provided < MPI_THREAD_MULTIPLE),
                             MPI_COMM_WORLD, std::chrono::milliseconds(timeout_milliseconds),
                             /*is_world=*/true);
}
