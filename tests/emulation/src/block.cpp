#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <source_location>
#include <sstream>
#include <utility>
#include <vector>

#include "crash.h"
#include "emulation.h"
#include "fibre/fibre.h"
#include "random.h"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace autopar::emulation {

namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kSharedBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::byte kUntouched{0xa5};

std::string position(uint3 at) {
  std::ostringstream text;
  text << '(' << at.x << ',' << at.y << ',' << at.z << ')';
  return text.str();
}

std::string hexadecimal(unsigned mask) {
  std::ostringstream text;
  text << "0x" << std::hex << mask;
  return text.str();
}

std::string place(const std::source_location& where) {
  std::ostringstream text;
  text << where.file_name() << ':' << where.line();
  return text.str();
}

bool same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         same_text(a.file_name(), b.file_name());
}

enum class State { kReady, kAtBarrier, kInWarpOperation, kEnded };

/// A thread of the block that runs now.
struct Thread {
  uint3 index;
  unsigned number;
  State state;
  Fibre* fibre;  // null before the first instruction and after the last
  // What it waits for.
  const char* operation;
  std::source_location where;
  unsigned mask;
  const void* mine;
  void* all;
  std::size_t bytes;
};

/// Executes blocks in one host thread, with stacks and shared memory that it keeps.
class BlockRunner {
 public:
  BlockRunner() {
    void* mapping = mmap(nullptr, kSharedBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    shared_end_ = static_cast<std::byte*>(mapping) + kSharedBytes;
    mprotect(shared_end_, kGuardBytes, PROT_NONE);
  }
  ~BlockRunner() { munmap(shared_end_ - kSharedBytes, kSharedBytes + kGuardBytes); }
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  std::string run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                       const std::function<void()>& thread) {
    gridDim = grid;
    blockDim = block;
    given_bytes_ = dynamic_shared_bytes;
    shared_bytes_ = (dynamic_shared_bytes + 1023) / 1024 * 1024;
    const std::function<void()> task = [this, &thread] { run_thread(thread); };
    // A random walk through all blocks: a start, and a stride that has no divisor in common.
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    std::uint64_t at = random_below(blocks);
    std::uint64_t stride = random_below(blocks) + 1;
    while (std::gcd(stride, blocks) != 1) stride = random_below(blocks) + 1;
    for (std::uint64_t i = 0; i < blocks && fault_.empty(); ++i, at = (at + stride) % blocks) {
      blockIdx = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                  static_cast<unsigned>(at / grid.x / grid.y)};
      run_block(task);
    }
    return std::exchange(fault_, {});
  }

  int barrier(BarrierKind kind, bool predicate, std::source_location where) {
    static constexpr const char* kNames[] = {"__syncthreads", "__syncthreads_count",
                                             "__syncthreads_and", "__syncthreads_or"};
    Thread& thread = *current_;
    wait(thread, State::kAtBarrier, kNames[static_cast<int>(kind)], where);
    if (arrived_ == 0) {
      first_arrival_ = &thread;
    } else if (!same_place(first_arrival_->where, where)) {
      note_fault("is in " + std::string(thread.operation) + " at " + place(where) +
                 " while thread " + position(first_arrival_->index) + " is in " +
                 first_arrival_->operation + " at " + place(first_arrival_->where));
      stop();
    }
    ++arrived_;
    holds_ += predicate;
    open_barrier_if_all_came();
    thread.fibre->suspend();
    switch (kind) {
      case BarrierKind::kNone:
        return 0;
      case BarrierKind::kCount:
        return held_;
      case BarrierKind::kAnd:
        return held_ == met_;
      case BarrierKind::kOr:
        return held_ != 0;
    }
    return 0;
  }

  void exchange(const char* operation, unsigned mask, const void* mine, void* all,
                std::size_t bytes, std::source_location where) {
    Thread& thread = *current_;
    if (!(mask >> lane() & 1)) {
      note_fault("calls " + std::string(operation) + " at " + place(where) + " with mask " +
                 hexadecimal(mask) + ", which is without its lane");
      stop();
    }
    wait(thread, State::kInWarpOperation, operation, where);
    thread.mask = mask;
    thread.mine = mine;
    thread.all = all;
    thread.bytes = bytes;
    finish_warp_operation_if_all_came();
    thread.fibre->suspend();
  }

  /// The block ends when its thread that runs now suspends.
  void note_fault(const std::string& what) {
    fault_ = "block " + position(blockIdx) + ", thread " + position(current_->index) + " " + what;
  }

  /// Objects that are alive in the thread are never destroyed.
  [[noreturn]] void stop() {
    while (true) current_->fibre->suspend();
  }

  int lane() const { return static_cast<int>(current_->number % kWarp); }

  std::byte* shared() const { return shared_end_ - shared_bytes_; }

 private:
  void run_block(const std::function<void()>& task) {
    std::memset(shared(), 0xff, given_bytes_);
    std::fill(shared() + given_bytes_, shared_end_, kUntouched);
    const unsigned count = blockDim.x * blockDim.y * blockDim.z;
    threads_.assign(count, {});
    ready_.resize(count);
    for (unsigned i = 0; i < count; ++i) {
      threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y,
                           i / blockDim.x / blockDim.y};
      threads_[i].number = i;
      ready_[i] = &threads_[i];
    }
    ended_ = arrived_ = holds_ = 0;
    while (!ready_.empty() && fault_.empty()) {
      std::swap(ready_[random_below(ready_.size())], ready_.back());
      current_ = ready_.back();
      ready_.pop_back();
      resume(*current_, task);
    }
    if (fault_.empty() && ended_ != count) fault_ = describe_deadlock();
    if (fault_.empty()) fault_ = describe_overrun();
    if (!fault_.empty()) abandon_threads();
  }

  void resume(Thread& thread, const std::function<void()>& task) {
    if (thread.fibre == nullptr) {
      if (free_fibres_.empty()) {
        fibres_.push_back(std::make_unique<Fibre>(static_cast<int>(fibres_.size())));
        free_fibres_.push_back(fibres_.back().get());
      }
      thread.fibre = free_fibres_.back();
      free_fibres_.pop_back();
    }
    threadIdx = thread.index;
    thread.fibre->resume(task);
    if (thread.state == State::kEnded) free_fibres_.push_back(std::exchange(thread.fibre, nullptr));
  }

  /// In the thread's fibre: the kernel, from start to end.
  void run_thread(const std::function<void()>& thread) {
    try {
      thread();
    } catch (const std::exception& error) {
      note_fault(std::string("threw: ") + error.what());
    } catch (...) {
      note_fault("threw an exception");
    }
    current_->state = State::kEnded;
    ++ended_;
    open_barrier_if_all_came();
  }

  static void wait(Thread& thread, State state, const char* operation, std::source_location where) {
    thread.state = state;
    thread.operation = operation;
    thread.where = where;
  }

  void make_ready(Thread& thread) {
    thread.state = State::kReady;
    ready_.push_back(&thread);
  }

  /// Threads that have ended count as arrived, as they do since Volta.
  void open_barrier_if_all_came() {
    if (arrived_ == 0 || arrived_ + ended_ != threads_.size()) return;
    met_ = static_cast<int>(std::exchange(arrived_, 0));
    held_ = std::exchange(holds_, 0);
    for (Thread& thread : threads_) {
      if (thread.state == State::kAtBarrier) make_ready(thread);
    }
  }

  /// The thread that is lane `lane` of the warp of `thread`; null if there is none.
  Thread* lane_of(const Thread& thread, unsigned lane) {
    const unsigned number = thread.number / kWarp * kWarp + lane;
    return number < threads_.size() ? &threads_[number] : nullptr;
  }

  /// Whether `lane`, null if there is none, is in the same operation as `thread`.
  static bool meets(const Thread& thread, const Thread* lane) {
    return lane != nullptr && lane->state == State::kInWarpOperation && lane->mask == thread.mask &&
           lane->bytes == thread.bytes && same_text(lane->operation, thread.operation);
  }

  void finish_warp_operation_if_all_came() {
    const Thread& thread = *current_;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if (thread.mask >> lane & 1 && !meets(thread, lane_of(thread, lane))) return;
    }
    // Gathered first: a lane that goes on may change what it gave.
    const std::size_t bytes = thread.bytes;
    gathered_.assign(kWarp * bytes, std::byte{0xff});
    for_lanes(thread.mask, [&](unsigned lane, Thread& other) {
      if (bytes != 0) std::memcpy(&gathered_[lane * bytes], other.mine, bytes);
    });
    for_lanes(thread.mask, [&](unsigned, Thread& other) {
      if (bytes != 0) std::memcpy(other.all, gathered_.data(), gathered_.size());
      make_ready(other);
    });
  }

  template <typename Body>
  void for_lanes(unsigned mask, Body body) {
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if (mask >> lane & 1) body(lane, *lane_of(*current_, lane));
    }
  }

  /// What was written between the end of dynamic shared memory and the guard page.
  std::string describe_overrun() const {
    const std::byte* end = shared() + given_bytes_;
    const std::byte* touched = std::find_if(end, static_cast<const std::byte*>(shared_end_),
                                            [](std::byte each) { return each != kUntouched; });
    if (touched == shared_end_) return {};
    std::ostringstream text;
    text << "block " << position(blockIdx) << " wrote byte " << touched - shared() << " of "
         << given_bytes_ << " bytes of dynamic shared memory";
    return text.str();
  }

  /// The threads that wait, those in the same operation at the same place once.
  std::string describe_deadlock() {
    std::ostringstream text;
    text << "block " << position(blockIdx) << ": threads wait for ever:";
    std::vector<const Thread*> told;
    for (const Thread& thread : threads_) {
      if (thread.state == State::kEnded ||
          std::any_of(told.begin(), told.end(), [&](const Thread* other) {
            return other->operation == thread.operation && same_place(other->where, thread.where);
          })) {
        continue;
      }
      text << (told.empty() ? " thread " : "; thread ") << position(thread.index) << " in "
           << thread.operation << " at " << place(thread.where);
      if (thread.state == State::kInWarpOperation) describe_missing_lane(thread, text);
      told.push_back(&thread);
    }
    return text.str();
  }

  void describe_missing_lane(const Thread& thread, std::ostringstream& text) {
    text << ", mask " << hexadecimal(thread.mask);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const Thread* other = lane_of(thread, lane);
      if (!(thread.mask >> lane & 1) || meets(thread, other)) continue;
      text << ", whose lane " << lane;
      if (other == nullptr) {
        text << " does not exist";
      } else if (other->state == State::kEnded) {
        text << " has ended";
      } else {
        text << " is in " << other->operation << " at " << place(other->where);
        if (other->state == State::kInWarpOperation) {
          text << " with mask " << hexadecimal(other->mask);
        }
      }
      return;
    }
  }

  void abandon_threads() {
    for (Thread& thread : threads_) {
      if (thread.fibre == nullptr) continue;
      thread.fibre->abandon();
      free_fibres_.push_back(std::exchange(thread.fibre, nullptr));
    }
  }

  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre*> free_fibres_;
  std::byte* shared_end_;
  std::size_t given_bytes_ = 0;   ///< of dynamic shared memory
  std::size_t shared_bytes_ = 0;  ///< the same in whole units of 1024

  std::vector<Thread> threads_;
  std::vector<Thread*> ready_;
  Thread* current_ = nullptr;
  std::string fault_;
  std::size_t ended_ = 0;

  // The barrier: who came, and what the last one saw.
  std::size_t arrived_ = 0;
  int holds_ = 0;
  int met_ = 0;
  int held_ = 0;
  const Thread* first_arrival_ = nullptr;
  std::vector<std::byte> gathered_;
};

BlockRunner& runner() {
  thread_local BlockRunner instance;
  return instance;
}

}  // namespace

std::string run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                     const std::function<void()>& thread) {
  explain_crashes();
  executes_kernel() = true;
  std::string fault = runner().run_grid(grid, block, dynamic_shared_bytes, thread);
  executes_kernel() = false;
  return fault;
}

int barrier(BarrierKind kind, bool predicate, std::source_location where) {
  return runner().barrier(kind, predicate, where);
}

void exchange(const char* operation, unsigned mask, const void* mine, void* all, std::size_t bytes,
              std::source_location where) {
  runner().exchange(operation, mask, mine, all, bytes, where);
}

int lane_id() { return runner().lane(); }

std::byte* dynamic_shared() { return runner().shared(); }

void fault(const char* what) {
  runner().note_fault(what);
  runner().stop();
}

void trap() { fault("called __trap"); }

void require_aligned(const char* operation, const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  std::ostringstream text;
  text << operation << " at " << address << ", which is no multiple of " << bytes << " bytes";
  fault(text.str().c_str());
}

}  // namespace autopar::emulation
