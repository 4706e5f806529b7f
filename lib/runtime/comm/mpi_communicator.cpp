#include "runtime/comm/mpi_communicator.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "graph/error.h"
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

/// Reductions are not left to MPI: it has no half types, and its order, and with it the result's
/// last bits, may differ between ranks.
class MpiCommunicator final : public ExchangingCommunicator {
 public:
  MpiCommunicator(MPI_Comm comm, std::chrono::milliseconds timeout, bool is_world)
      : comm_(comm), timeout_(timeout), is_world_(is_world) {
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
    return std::make_unique<MpiCommunicator>(made, timeout_, /*is_world=*/false);
  }

  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data, as_int(bytes, "broadcast"), MPI_BYTE, root, comm_, &request),
          "broadcast");
    wait(request, "broadcast", timeout_);
  }

  void barrier() override { barrier(timeout_); }
  void barrier(std::chrono::milliseconds timeout) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request), "barrier");
    wait(request, "barrier", timeout);
  }

  /// Nothing is known: where a rank has failed, the launcher ends this one.
  void check_members() override {}

  /// The process is about to end without finalising; the launcher then ends the others.
  void abort() noexcept override {}

 private:
  void gather(const std::byte* in, std::byte* out, std::span<const std::int64_t> block_bytes,
              const char* what) override {
    const BlockLayout layout(block_bytes, what);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(in, layout.counts[static_cast<std::size_t>(rank_)], MPI_BYTE, out,
                          layout.counts.data(), layout.offsets.data(), MPI_BYTE, comm_, &request),
          what);
    wait(request, what, timeout_);
  }

  void exchange(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                std::span<const std::int64_t> receive_bytes, const char* what) override {
    const BlockLayout send(send_bytes, what);
    const BlockLayout receive(receive_bytes, what);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(in, send.counts.data(), send.offsets.data(), MPI_BYTE, out,
                         receive.counts.data(), receive.offsets.data(), MPI_BYTE, comm_, &request),
          what);
    wait(request, what, timeout_);
  }

  /// Polls, since MPI's own waits have no deadline; yields, since ranks may share a core.
  void wait(MPI_Request& request, const char* what, std::chrono::milliseconds timeout) const {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    int done = 0;
    for (std::int64_t polls = 0;; ++polls) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      if (done != 0) return;
      if (polls > 100) std::this_thread::yield();
      if (polls % 64 == 0 && std::chrono::steady_clock::now() > deadline) {
        fail("rank {}: {} waited {} ms for the other ranks; some did not come", rank_, what,
             timeout.count());
      }
    }
  }

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
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "the start");
  return new MpiCommunicator(MPI_COMM_WORLD, std::chrono::milliseconds(timeout_milliseconds),
                             /*is_world=*/true);
}
