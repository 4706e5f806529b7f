#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/wait_until.h"

namespace autopar::runtime {

/// Threads that live as long as this and run one task after another, all of them at once.
class WorkerThreads {
 public:
  /// A worker's part, by its number; throws nothing.
  using Task = std::function<void(std::size_t worker)>;

  explicit WorkerThreads(std::size_t count) {
    try {
      for (std::size_t worker = 0; worker < count; ++worker)
        threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error& error) {
      end();  // those that have started wait for it
      fail(
          "thread {} of {} cannot be started: {}; raise the limit of processes (ulimit -u) or of "
          "memory (ulimit -v)",
          threads_.size() + 1, count, error.code().message());
    } catch (...) {  // no memory for one
      end();
      throw;
    }
  }
  ~WorkerThreads() { end(); }

  /// The task must live until wait() returns.
  void start(const Task& task) {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    at_work_ = threads_.size();
    ++started_;
    changed_.notify_all();
  }
  /// Returns when all workers are done.
  void wait() {
    std::unique_lock lock(mutex_);
    wait_until(changed_, lock, [&] { return at_work_ == 0; });
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

  void serve(std::size_t worker) {
    for (std::uint64_t done = 0;; ++done) {
      std::unique_lock lock(mutex_);
      wait_until(changed_, lock, [&] { return started_ > done || is_over_; });
      if (is_over_) return;
      lock.unlock();
      (*task_)(worker);
      lock.lock();
      if (--at_work_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const Task* task_ = nullptr;
  std::uint64_t started_ = 0;  ///< tasks so far
  std::size_t at_work_ = 0;    ///< workers that have not done the last one
  bool is_over_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace autopar::runtime
