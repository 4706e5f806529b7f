#pragma once

#include <cstddef>
#include <functional>

namespace autopar {

/// A stack of its own that its owner, a host thread, switches to and back from in some nanoseconds.
/// It is used for one task after the other.
class Fibre {
 public:
  /// `number` tells the fibres of a thread apart: their stacks should not share cache sets.
  explicit Fibre(int number);
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  /// Runs `task` from its start, or goes on where it called suspend(), until it ends or suspends.
  /// `task` must not throw and must stay the same object until it ends.
  void resume(const std::function<void()>& task);

  /// Called by the task: back to whoever resumed it.
  void suspend();

  /// Forgets a suspended task; its objects are not destroyed.
  void abandon();

 private:
  struct Entry;

  void make();
  void unmake();

  std::size_t skipped_;
  std::byte* mapping_;
  const std::function<void()>* task_ = nullptr;
  void* context_ = nullptr;
  void* owner_context_ = nullptr;
  // What the sanitizers know of the two stacks.
  void* fake_stack_ = nullptr;
  const void* owner_stack_ = nullptr;
  std::size_t owner_stack_bytes_ = 0;
  void* thread_ = nullptr;
  void* owner_thread_ = nullptr;
};

}  // namespace autopar
