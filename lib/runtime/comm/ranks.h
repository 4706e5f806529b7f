#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/usable_cores.h"
#include "runtime/comm/communicator.h"
#include "runtime/session_options.h"
#include "runtime/worker_threads.h"

namespace autopar::runtime {

/// The ranks of a world that run on this rank's machine and share its cores and GPUs.
struct LocalRanks {
  int rank = 0;   ///< this one's place among them
  int count = 1;  ///< with this one
  /// All of them by their ranks in the world; empty: this one alone.
  std::vector<int> in_world = {};
  /// Cores that this one may keep busy, so that together they use what they may; 0: those that the
  /// process may use, over `count`.
  int cores = 0;
  /// Those of its NUMA node, which its thread is bound to, so that memory that it touches first
  /// lies there; empty where it is not to be bound: by itself, bound by who started it, or of one
  /// node.
  CoreSet cores_of_node = {};
};

/// Shares the cores of one machine out. `cores`: by local rank, those that it may use; `quota`: of
/// all of them together; `nodes`: the machine's NUMA nodes. Ranks that may use the same cores are
/// spread over the nodes.
void share_cores(LocalRanks& local, std::vector<CoreSet> cores, std::size_t quota,
                 const std::vector<CoreSet>& nodes);

/// Asks all others which machine they run on; every rank of the world calls it.
LocalRanks local_ranks(HostCommunicator& world);

/// The ranks of a world that this process runs: all of them, or one of several processes'. Each has
/// a thread, which lives as long as this, and a communicator.
class Ranks {
 public:
  /// All ranks, in this process. `timeout`: how long a rank waits for one that does not come.
  static Ranks in_threads(int count, std::chrono::milliseconds timeout);
  /// One of several processes; all of them call it.
  static Ranks one_of(std::unique_ptr<HostCommunicator> world);

  int world_size() const { return ranks_.front().world->size(); }
  bool are_all_here() const { return std::ssize(ranks_) == world_size(); }
  bool has_first() const { return ranks_.front().world->rank() == 0; }

  /// Runs the task as each rank of this process, in its thread, and returns when all are done.
  /// Where one throws, the ranks of all processes are told, and the first error that is a cause is
  /// thrown; nothing can be run afterwards.
  using Task = std::function<void(HostCommunicator& world, const LocalRanks& local)>;
  void run_as_rank(const Task& task);
  /// Who tells the other processes of work that this one does beside tasks; null where there is no
  /// other. It throws nothing.
  WorkListener* listener() const { return listener_.get(); }
  /// Ends all that ranks wait for, as if a task had failed.
  void abort() noexcept;

 private:
  struct Rank {
    std::unique_ptr<HostCommunicator> world;
    LocalRanks local;
  };

  explicit Ranks(std::vector<Rank> ranks);

  std::vector<Rank> ranks_;
  std::unique_ptr<WorkListener> listener_;
  std::unique_ptr<WorkerThreads> threads_;
  bool has_failed_ = false;
};

/// What ranks that meet must have in common.
struct ExpectedRanks {
  int count = 1;
  /// Whether these must be so many; else as many as a launcher has started, where one has.
  bool is_given = true;
  std::string what;                        ///< that has so many ranks, for messages
  std::function<std::string()> digest;     ///< of what they are to do; asked at a rendezvous alone
  std::filesystem::path secret_file = {};  ///< unless another secret is given; may be empty
};

/// The world of this process' rank, which meets the others at options.rendezvous. Throws Error
/// where they do not find together.
std::unique_ptr<HostCommunicator> meet_at_rendezvous(const LaunchOptions& options,
                                                     const ExpectedRanks& expected);

/// The ranks that the options give this process. Waits for the other processes, if there are any;
/// a launcher may have started more or fewer of them than are expected. Throws Error for options
/// that contradict each other, and where the ranks do not find together.
Ranks launch_ranks(const LaunchOptions& options, const ExpectedRanks& expected);

}  // namespace autopar::runtime
