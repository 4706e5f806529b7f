#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulation_nccl.h"
#include "nccl.h"
#include "nccl_segment.h"

namespace autopar::fake_nccl {

/// What one rank knows of one communicator. Lives as long as its handle or work that uses it.
struct Communicator {
  Segment segment;
  std::string name;
  int rank = 0;
  int ranks = 0;
  int world_rank = 0;  ///< in the communicator that this one was split from
  int device = 0;
  bool is_blocking = true;

  std::atomic<bool> is_aborted = false;
  std::atomic<bool> is_stuck = false;  ///< by a fault of the test
  std::atomic<ncclResult_t> state = ncclInProgress;

  // What host threads call, under the mutex.
  std::mutex mutex;
  std::function<ncclResult_t()> pending;  ///< what a call that returned ncclInProgress does yet
  bool was_polled = false;                ///< since `pending` was set
  bool is_finalized = false;
  bool has_launched = false;
  int splits = 0;
  cudaStream_t last_stream = nullptr;
  std::uint64_t last_capture = 0;
  cudaEvent_t last_launch = nullptr;  ///< made by the first; the handle's end destroys it
  /// Launches by what lives as long as their work; captured ones live as long as their graph.
  struct Launched {
    std::weak_ptr<void> work;
    cudaStream_t stream;
    bool is_captured;
  };
  std::vector<Launched> launched;

  /// The first error stays.
  void fail(ncclResult_t result, const std::string& message);
};

/// For all communicators.
void set_last_error(const std::string& message);

/// See emulation::tell_peers_of_aborts.
std::atomic<bool>& peers_are_told();
/// See emulation::tell_of_duplicates.
std::atomic<emulation::DuplicateWords>& duplicate_words();

/// One call of a collective, a send or a receive, and how far it has come.
struct Operation {
  enum Kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, receive };
  Kind kind;
  const void* from;
  void* to;
  std::size_t count;  ///< as the call has it
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;  ///< or root

  std::size_t done = 0;  ///< elements, of each block
  bool has_started = false;
  bool has_shown = false;
  bool is_finished = false;

  bool is_collective() const { return kind != send && kind != receive; }
};

/// The operations of a group on one communicator, as they execute in a stream: collectives in
/// order, then all sends and receives at once.
class Launch {
 public:
  Launch(std::shared_ptr<Communicator> communicator, std::vector<Operation> operations)
      : communicator_(std::move(communicator)), operations_(std::move(operations)) {}

  /// Goes as far as the others are; true once all is done, or the communicator was aborted.
  bool poll();

 private:
  bool advance(Operation& operation);
  bool advance_collective(Operation& operation);
  bool advance_send(Operation& operation);
  bool advance_receive(Operation& operation);

  std::shared_ptr<Communicator> communicator_;
  std::vector<Operation> operations_;
};

}  // namespace autopar::fake_nccl
