#include "queue.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "emulation.h"
#include "machine.h"
#include "random.h"

namespace autopar::emulation {

struct Operation {
  Work work;
  std::thread::id thread;
  std::vector<OperationPtr> before;  ///< operations that come after this one
  std::vector<std::weak_ptr<Operation>> after;
  std::size_t missing = 0;  ///< how many of `after` are not done
  bool done = false;
};

namespace {

/// Operations that nothing but their turn holds back.
struct Queue {
  std::mutex mutex;
  std::vector<OperationPtr> ready;
};

Queue& queue() {
  static Queue& instance = *new Queue;
  return instance;
}

/// The device memory that the calling thread has opened to execute work.
class OpenDevices {
 public:
  void open(int device) {
    if (!devices_.contains(device))
      devices_.emplace(device, std::make_unique<DeviceAccess>(device));
  }
  void close() { devices_.clear(); }

 private:
  std::map<int, std::unique_ptr<DeviceAccess>> devices_;
};

/// A ready operation that `operation` waits for, whoever queued it.
OperationPtr ready_before(const OperationPtr& operation,
                          std::unordered_set<const Operation*>& seen) {
  if (operation == nullptr || operation->done || !seen.insert(operation.get()).second) return {};
  if (operation->missing == 0) {
    auto& ready = queue().ready;
    return std::find(ready.begin(), ready.end(), operation) != ready.end() ? operation : nullptr;
  }
  for (const auto& earlier : operation->after) {
    if (OperationPtr found = ready_before(earlier.lock(), seen)) return found;
  }
  return {};
}

/// Takes an operation that can execute from the queue: any of this thread, or else one that
/// `target` needs.
OperationPtr take(const OperationPtr& target) {
  auto& ready = queue().ready;
  std::vector<OperationPtr> candidates;
  for (const OperationPtr& operation : ready) {
    if (operation->thread == std::this_thread::get_id()) candidates.push_back(operation);
  }
  if (candidates.empty()) {
    std::unordered_set<const Operation*> seen;
    if (OperationPtr operation = ready_before(target, seen)) candidates.push_back(operation);
  }
  if (candidates.empty()) return {};
  OperationPtr taken = candidates[random_below(candidates.size())];
  ready.erase(std::find(ready.begin(), ready.end(), taken));
  return taken;
}

/// Whether the work is over.
bool execute(const Work& work, OpenDevices& open) {
  if (!work.run || device_error(work.device) != cudaSuccess) return true;
  if (work.kind == cudaGraphNodeTypeHost) {
    open.close();
  } else {
    open.open(work.device);
  }
  executes_work() = true;
  bool over = true;
  try {
    over = work.run();
  } catch (const std::exception& error) {
    report_fault(work.device, std::string("queued work threw: ") + error.what());
  }
  executes_work() = false;
  return over;
}

void mark_done(Operation& operation) {
  operation.done = true;
  operation.work.run = nullptr;
  operation.after.clear();
  for (OperationPtr& later : operation.before) {
    if (--later->missing == 0 && !later->done) queue().ready.push_back(later);
  }
  operation.before.clear();
}

/// Executes one piece; whether there was one that went on.
bool step(const OperationPtr& target, OpenDevices& open) {
  std::unique_lock lock(queue().mutex);
  const OperationPtr taken = take(target);
  if (taken == nullptr) return false;
  lock.unlock();
  const bool over = execute(taken->work, open);
  lock.lock();
  if (taken->done) return true;  // dropped meanwhile
  if (over) {
    mark_done(*taken);
  } else {
    queue().ready.push_back(taken);
  }
  return over;
}

}  // namespace

OperationPtr queue_work(Work work, const std::vector<OperationPtr>& after) {
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  operation->thread = std::this_thread::get_id();
  const std::lock_guard lock(queue().mutex);
  for (const OperationPtr& earlier : after) {
    if (earlier == nullptr || earlier->done) continue;
    earlier->before.push_back(operation);
    operation->after.push_back(earlier);
    ++operation->missing;
  }
  if (operation->missing == 0) queue().ready.push_back(operation);
  return operation;
}

bool is_done(const OperationPtr& operation) {
  const std::lock_guard lock(queue().mutex);
  return operation == nullptr || operation->done;
}

void finish(const OperationPtr& operation) {
  OpenDevices open;
  while (!is_done(operation)) {
    // What is left waits for other threads.
    if (!step(operation, open)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool progress(const OperationPtr& operation) {
  OpenDevices open;
  if (!is_done(operation)) step(operation, open);
  return is_done(operation);
}

void drop_queued_work() {
  const std::lock_guard lock(queue().mutex);
  while (!queue().ready.empty()) {
    const OperationPtr operation = queue().ready.back();
    queue().ready.pop_back();
    mark_done(*operation);
  }
}

}  // namespace autopar::emulation
