#include "nccl_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>

#include "emulation_nccl.h"
#include "nccl_reduce.h"

namespace autopar::fake_nccl {

namespace {

/// A rank and which of its operations, from 0.
using Place = std::pair<int, int>;
constexpr Place nowhere = {-1, -1};

Place from_environment(const char* variable) {
  Place place = nowhere;
  const char* text = std::getenv(variable);
  if (text != nullptr && std::sscanf(text, "%d:%d", &place.first, &place.second) != 2) {
    std::fprintf(stderr, "%s is RANK:K, not %s\n", variable, text);
    std::abort();
  }
  return place;
}

struct Faults {
  std::mutex mutex;
  Place hang = from_environment("AUTOPAR_NCCL_HANG");
  Place failure = from_environment("AUTOPAR_NCCL_FAIL");
  std::map<int, int> started;  ///< operations by world rank
};

Faults& faults() {
  static Faults instance;
  return instance;
}

/// Counts an operation, and makes the faults that are due at it.
void start(Communicator& communicator) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  const Place here = {communicator.world_rank, all.started[communicator.world_rank]++};
  if (here == all.hang) communicator.is_stuck = true;
  if (here == all.failure) {
    communicator.fail(ncclRemoteError, "the test has this communicator fail");
    communicator.is_stuck = true;
  }
}

Segment::Claim claim_of(const Operation& operation) {
  const bool reduces = operation.kind == Operation::all_reduce ||
                       operation.kind == Operation::reduce ||
                       operation.kind == Operation::reduce_scatter;
  const bool has_root =
      operation.kind == Operation::broadcast || operation.kind == Operation::reduce;
  return {operation.kind, operation.type, reduces ? operation.reduction : -1,
          has_root ? operation.peer : -1, operation.count};
}

const std::byte* at(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}
std::byte* at(void* memory, std::size_t bytes) { return static_cast<std::byte*>(memory) + bytes; }

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

std::atomic<bool>& peers_are_told() {
  static std::atomic<bool> told = true;
  return told;
}

std::atomic<emulation::DuplicateWords>& duplicate_words() {
  static std::atomic words = emulation::DuplicateWords::up_to_2_29;
  return words;
}

void Communicator::fail(ncclResult_t result, const std::string& message) {
  ncclResult_t expected = ncclSuccess;
  if (!state.compare_exchange_strong(expected, result) && expected == ncclInProgress) {
    state.compare_exchange_strong(expected, result);
  }
  set_last_error(message);
}

bool Launch::poll() {
  Communicator& communicator = *communicator_;
  for (Operation& operation : operations_) {
    if (communicator.is_aborted) return true;
    if (operation.is_finished || !operation.is_collective()) continue;
    if (!advance(operation)) return false;
  }
  bool are_finished = true;
  for (auto operation = operations_.begin(); operation != operations_.end(); ++operation) {
    if (operation->is_finished) continue;
    // One after the other between the same two ranks in the same direction.
    const bool is_first = std::none_of(operations_.begin(), operation, [&](const Operation& other) {
      return !other.is_finished && other.kind == operation->kind && other.peer == operation->peer;
    });
    if (!is_first || !advance(*operation)) are_finished = false;
  }
  return are_finished || communicator.is_aborted;
}

bool Launch::advance(Operation& operation) {
  if (!operation.has_started) {
    operation.has_started = true;
    start(*communicator_);
  }
  if (communicator_->is_stuck) return false;
  operation.is_finished = operation.kind == Operation::send      ? advance_send(operation)
                          : operation.kind == Operation::receive ? advance_receive(operation)
                                                                 : advance_collective(operation);
  return operation.is_finished;
}

bool Launch::advance_collective(Operation& operation) {
  Communicator& communicator = *communicator_;
  Segment::StreamBoard* boards = communicator.segment.stream_boards();
  const int ranks = communicator.ranks;
  const int rank = communicator.rank;
  const std::size_t element = bytes_of(operation.type);
  const bool scatters = operation.kind == Operation::reduce_scatter;
  const auto blocks = static_cast<std::size_t>(scatters ? ranks : 1);
  const std::size_t chunk = Segment::chunk_bytes / element / blocks;
  const bool gives = operation.kind != Operation::broadcast || rank == operation.peer;
  const bool takes = operation.kind != Operation::reduce || rank == operation.peer;

  while (true) {
    const std::size_t count = std::min(chunk, operation.count - operation.done);
    const std::size_t bytes = count * element;
    const std::size_t offset = operation.done * element;
    if (!operation.has_shown) {
      if (!may_show(boards, ranks, rank)) return false;
      boards[rank].claim = claim_of(operation);
      for (std::size_t block = 0; block < blocks && gives; ++block) {
        copy_bytes(boards[rank].data + block * bytes,
                   at(operation.from, block * operation.count * element + offset), bytes);
      }
      show(boards, rank);
      operation.has_shown = true;
    }
    if (!all_shown(boards, ranks, rank)) return false;

    std::vector<const std::byte*> shown;
    for (int member = 0; member < ranks; ++member) {
      if (boards[member].claim != claim_of(operation)) {
        done_reading(boards, rank);
        communicator.fail(
            ncclInvalidUsage,
            fmt::format("rank {} and rank {} do not call the same collective", rank, member));
        return true;
      }
      const std::size_t mine = scatters ? static_cast<std::size_t>(rank) * bytes : 0;
      shown.push_back(boards[member].data + mine);
    }
    std::byte* to = takes ? at(operation.to, offset) : nullptr;
    switch (operation.kind) {
      case Operation::all_gather:
        for (std::size_t member = 0; member < shown.size(); ++member) {
          copy_bytes(to + member * operation.count * element, shown[member], bytes);
        }
        break;
      case Operation::broadcast:
        copy_bytes(to, shown[static_cast<std::size_t>(operation.peer)], bytes);
        break;
      default:
        if (takes) reduce(shown, to, count, operation.type, operation.reduction);
    }
    done_reading(boards, rank);
    operation.has_shown = false;
    operation.done += count;
    if (operation.done == operation.count) return true;
  }
}

/// Done when the peer has read it all, as if nothing were buffered.
bool Launch::advance_send(Operation& operation) {
  Communicator& communicator = *communicator_;
  Segment::Channel& channel = communicator.segment.channel(communicator.rank, operation.peer);
  const std::size_t element = bytes_of(operation.type);
  while (true) {
    const std::uint64_t written = channel.written.load(std::memory_order_relaxed);
    if (channel.read.load(std::memory_order_acquire) != written) return false;
    if (channel.is_refused.exchange(0) != 0) {
      communicator.fail(ncclInvalidUsage, fmt::format("rank {} sends what rank {} does not expect",
                                                      communicator.rank, operation.peer));
      return true;
    }
    if (operation.has_shown && operation.done == operation.count) return true;
    const std::size_t count =
        std::min(Segment::Channel::chunk_bytes / element, operation.count - operation.done);
    channel.claim = {0, operation.type, -1, -1, operation.count};
    copy_bytes(channel.data, at(operation.from, operation.done * element), count * element);
    operation.done += count;
    operation.has_shown = true;
    channel.written.store(written + 1, std::memory_order_release);
  }
}

bool Launch::advance_receive(Operation& operation) {
  Communicator& communicator = *communicator_;
  Segment::Channel& channel = communicator.segment.channel(operation.peer, communicator.rank);
  const std::size_t element = bytes_of(operation.type);
  while (true) {
    const std::uint64_t read = channel.read.load(std::memory_order_relaxed);
    if (channel.written.load(std::memory_order_acquire) == read) return false;
    const Segment::Claim expected = {0, operation.type, -1, -1, operation.count};
    const bool is_expected = channel.claim == expected;
    const std::size_t count =
        std::min(Segment::Channel::chunk_bytes / element, operation.count - operation.done);
    if (is_expected) {
      copy_bytes(at(operation.to, operation.done * element), channel.data, count * element);
    } else {
      channel.is_refused.store(1);
      communicator.fail(ncclInvalidUsage, fmt::format("rank {} does not expect what rank {} sends",
                                                      communicator.rank, operation.peer));
    }
    channel.read.store(read + 1, std::memory_order_release);
    operation.done += count;
    if (!is_expected || operation.done == operation.count) return true;
  }
}

}  // namespace autopar::fake_nccl

namespace autopar::emulation {

void hang_at(int rank, int k) {
  const std::lock_guard lock(fake_nccl::faults().mutex);
  fake_nccl::faults().hang = {rank, k};
  fake_nccl::faults().started.erase(rank);
}

void fail_at(int rank, int k) {
  const std::lock_guard lock(fake_nccl::faults().mutex);
  fake_nccl::faults().failure = {rank, k};
  fake_nccl::faults().started.erase(rank);
}

void tell_peers_of_aborts(bool tell) { fake_nccl::peers_are_told() = tell; }

void tell_of_duplicates(DuplicateWords words) { fake_nccl::duplicate_words() = words; }

void clear_nccl_faults() {
  const std::lock_guard lock(fake_nccl::faults().mutex);
  fake_nccl::faults().hang = fake_nccl::faults().failure = fake_nccl::nowhere;
  tell_peers_of_aborts(true);
  tell_of_duplicates(DuplicateWords::up_to_2_29);
}

}  // namespace autopar::emulation
