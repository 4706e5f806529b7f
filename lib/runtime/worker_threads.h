#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autopar::runtime {

/// Threads that live as long as this and run one task after another, all of them at once.
class WorkerThreads {
 public:
  /// A worker's part, by its number; throws nothing.
  using Task = std::function<void(std::size_t worker)>;

  explicit WorkerThreads(std::size_t count) {
    for (std::size_t worker = 0; worker < count; ++worker)
      threads_.emplace_back([this, worker] { serve(worker); });
  }
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  /// The task must live until wait() returns.
  void start(const Task& task);
  /// Returns when all workers are done.
  void wait();

 private:
  void serve(std::size_t worker);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Task* task_ = nullptr;
  std::uint64_t started_ = 0;  ///< tasks so far
  std::size_t at_work_ = 0;    ///< workers that have not done the last one
  bool is_over_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace autopar::runtime
