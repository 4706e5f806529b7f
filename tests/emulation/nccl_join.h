#pragma once
// Making communicators: the handles, and what init and split wait for. Nothing here has a thread of
// its own: who waits asks again.

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nccl_work.h"

struct ncclComm {};

namespace autopar::fake_nccl {

/// Keeps the message as the last error.
ncclResult_t refuse(ncclResult_t result, const std::string& message);

/// The communicators of all live handles.
class Handles {
 public:
  ncclComm_t add(std::shared_ptr<Communicator> communicator) {
    const std::lock_guard lock(mutex_);
    auto* handle = new ncclComm;
    communicators_[handle] = std::move(communicator);
    return handle;
  }
  /// Null for what is no live handle.
  std::shared_ptr<Communicator> find(ncclComm_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = communicators_.find(handle);
    return found == communicators_.end() ? nullptr : found->second;
  }
  /// Another live communicator of the same rank that is so.
  template <typename Predicate>
  bool any_beside(const Communicator& one, Predicate is_so) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(communicators_, [&](const auto& entry) {
      const Communicator& other = *entry.second;
      return &other != &one && other.device == one.device && is_so(other);
    });
  }
  /// Its work may live on.
  void remove(ncclComm_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = communicators_.find(handle);
    if (found == communicators_.end()) return;
    if (found->second->last_launch != nullptr) cudaEventDestroy(found->second->last_launch);
    communicators_.erase(found);
    delete handle;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<Communicator>> communicators_;
};

Handles& handles();

/// The port of NCCL_COMM_ID, taken while rank 0 waits for the others.
class RootPort {
 public:
  ~RootPort() {
    if (socket_ >= 0) close(socket_);
  }
  RootPort() = default;
  RootPort(const RootPort&) = delete;
  RootPort& operator=(const RootPort&) = delete;

  /// NCCL_COMM_ID's HOST:PORT. False where the port is taken or the host unknown.
  bool take(const std::string& address);

 private:
  int socket_ = -1;
};

/// Makes or finds the segment, tells of this rank, waits for the others.
class Init {
 public:
  explicit Init(Communicator& communicator) : communicator_(communicator) {}

  /// ncclInProgress until all ranks have come; for ever where the root refuses one.
  ncclResult_t poll();

 private:
  ncclResult_t wait_in_vain(const std::string& why);
  ncclResult_t check_devices() const;

  Communicator& communicator_;
  bool is_open_ = false;
  bool is_refused_ = false;
};

/// Meets all members once on the host: shows `mine`, and hands over all that is shown.
template <typename T>
class Meeting {
 public:
  Meeting(Communicator& communicator, T mine) : communicator_(communicator), mine_(mine) {}

  /// Empty until all have come.
  std::vector<T> poll() {
    Segment::HostBoard* boards = communicator_.segment.host_boards();
    const int ranks = communicator_.ranks;
    const int rank = communicator_.rank;
    if (!has_shown_) {
      if (!may_show(boards, ranks, rank)) return {};
      static_assert(sizeof(T) <= sizeof(boards->data));
      std::memcpy(boards[rank].data, &mine_, sizeof mine_);
      show(boards, rank);
      has_shown_ = true;
    }
    if (!all_shown(boards, ranks, rank)) return {};
    std::vector<T> all(static_cast<std::size_t>(ranks));
    for (int i = 0; i < ranks; ++i) {
      std::memcpy(&all[static_cast<std::size_t>(i)], boards[i].data, sizeof(T));
    }
    done_reading(boards, rank);
    return all;
  }

 private:
  Communicator& communicator_;
  T mine_;
  bool has_shown_ = false;
};

struct Place {
  int color;
  int key;
};

/// Meets the parent's members, then those of the same colour in a segment of their own.
class Split {
 public:
  Split(std::shared_ptr<Communicator> parent, int color, int key,
        std::shared_ptr<Communicator> child, ncclComm_t* handle)
      : parent_(std::move(parent)),
        place_{color, key},
        child_(std::move(child)),
        handle_(handle),
        meeting_(*parent_, place_),
        number_(parent_->splits++) {}

  ncclResult_t poll();

 private:
  void take_place(const std::vector<Place>& places);

  std::shared_ptr<Communicator> parent_;
  Place place_;
  std::shared_ptr<Communicator> child_;
  ncclComm_t* handle_;
  Meeting<Place> meeting_;
  int number_;
  std::optional<Init> init_;
};

}  // namespace autopar::fake_nccl
