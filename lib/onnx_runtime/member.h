#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"

namespace autopar::onnx_runtime {

/// One rank of a world, with its communicators. All sessions of the rank share it.
class Member {
 public:
  explicit Member(std::unique_ptr<runtime::HostCommunicator> world) : world_(std::move(world)) {}

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  bool has_failed() const { return has_failed_; }

  /// Calls `work`, one of this rank's at a time, which alone uses what follows. Where it throws,
  /// the others are told, and nothing more is done as this rank.
  template <typename Work>
  void communicate(const Work& work) {
    const std::lock_guard lock(mutex_);
    if (has_failed_) fail_again();
    try {
      work();
    } catch (...) {
      has_failed_ = true;
      world_->abort();
      throw;
    }
  }

  /// The communicator of these world ranks; made on first use, kept.
  runtime::HostCommunicator& group(const std::vector<int>& ranks);

  /// A message that the other end asks for by the same id. What comes before the one that is asked
  /// for is kept: a session may send in another order than another one receives.
  void send(int peer, std::uint64_t id, std::span<const std::byte> message);
  /// Throws Error where the message has another size.
  void receive(int peer, std::uint64_t id, std::span<std::byte> message);

 private:
  struct Header {
    std::uint64_t id = 0;
    std::int64_t bytes = 0;
  };

  [[noreturn]] void fail_again() const;
  Header receive_header(int peer);

  std::mutex mutex_;
  std::atomic<bool> has_failed_ = false;
  std::unique_ptr<runtime::HostCommunicator> world_;
  std::map<std::vector<int>, std::unique_ptr<runtime::HostCommunicator>> groups_;
  /// By peer and id, in the order in which they came.
  std::map<std::pair<int, std::uint64_t>, std::deque<std::vector<std::byte>>> early_;
};

}  // namespace autopar::onnx_runtime
