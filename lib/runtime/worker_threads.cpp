#include "runtime/worker_threads.h"

namespace autopar::runtime {

WorkerThreads::~WorkerThreads() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

void WorkerThreads::serve(std::size_t worker) {
  for (std::uint64_t done = 0;; ++done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_ > done || is_over_; });
    if (is_over_) return;
    lock.unlock();
    (*task_)(worker);
    lock.lock();
    if (--at_work_ == 0) changed_.notify_all();
  }
}

void WorkerThreads::start(const Task& task) {
  const std::lock_guard lock(mutex_);
  task_ = &task;
  at_work_ = threads_.size();
  ++started_;
  changed_.notify_all();
}

void WorkerThreads::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_work_ == 0; });
}

}  // namespace autopar::runtime
