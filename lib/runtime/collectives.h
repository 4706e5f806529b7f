#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/comm/communicator.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// Whether all ranks of `host` say so; each must ask. Waits for ranks that are still loading or
/// compiling.
bool all_agree(HostCommunicator& host, bool mine);

/// Whether all ranks of `host` have the same number; else as all_agree.
bool are_all_alike(HostCommunicator& host, std::uint64_t mine);

/// One rank's communication during a run: the communicators of its groups, made when the shard is
/// compiled, and the count of what went through them.
class CollectiveContext {
 public:
  /// For a device that shares the host's memory. `timeout`: how long a collective may wait for a
  /// rank that does not come.
  explicit CollectiveContext(HostCommunicator& host,
                             std::chrono::milliseconds timeout = std::chrono::seconds(30));
  /// `world` is for the memory of this rank's device, and ranks agree over `host`, which has the
  /// same ranks.
  CollectiveContext(DeviceCommunicator& world, HostCommunicator& host,
                    std::chrono::milliseconds timeout)
      : world_(world), host_(host), timeout_(timeout) {}

  /// For a pipeline: the world's ranks by stage. Every rank of the world calls it once, before any
  /// group is made, with the same stages; groups are then made within this rank's stage. `device`
  /// is the one whose memory the world moves; not needed where that is the host's.
  void enter_stage(const std::vector<std::vector<int>>& stages, const Device* device = nullptr);

  /// The other end of a message: the communicator that it takes, and the rank there.
  struct Peer {
    DeviceCommunicator* communicator = nullptr;
    int rank = 0;
  };
  /// For a rank of the stage before (`queue` is receive) or of the next one (send). Throws
  /// Error for a rank that is in neither.
  Peer peer(int world_rank, Queue queue) const;

  int world_rank() const { return world_.rank(); }
  int world_size() const { return world_.size(); }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// Tells the other ranks that this one is at work; see HostCommunicator.
  void note_work() { host_.note_work(); }
  /// The communicator of this group of world ranks; made on first use, kept. Throws Error where
  /// some are in another stage.
  DeviceCommunicator& group(const std::vector<int>& ranks);

  /// Whether all ranks of this rank's stage say so; each must ask.
  bool all_agree(bool mine) { return runtime::all_agree(stage_host(), mine); }
  /// Whether all ranks of this rank's stage have the same number; each must ask.
  bool are_all_alike(std::uint64_t mine) { return runtime::are_all_alike(stage_host(), mine); }
  /// Throws Error if a rank has failed or left, as far as is known without waiting.
  void check_members();
  /// Makes every waiting and later collective of any rank throw.
  void abort() noexcept;

  /// See HostCommunicator::report_progress.
  void report_progress(std::int64_t progress) { host_.report_progress(progress); }
  /// The ranks among these that have reported less; none where reports cannot be seen.
  std::vector<int> ranks_behind(std::span<const int> ranks, std::int64_t progress) const;

  void count(const bundle::CollectiveTotal& call) { bundle::add_collective(totals_, call); }
  const std::vector<bundle::CollectiveTotal>& totals() const { return totals_; }
  void reset_totals() { totals_.clear(); }

 private:
  /// Between two stages.
  struct Link {
    std::vector<int> ranks;                            ///< world ranks, in the communicator's order
    std::unique_ptr<DeviceCommunicator> communicator;  ///< null where messages go over the world
  };

  HostCommunicator& stage_host() { return stage_host_ ? *stage_host_ : host_; }
  void connect_stages(const std::vector<std::vector<int>>& stages, const Device& device);
  int stage_of(int rank) const {
    return stage_of_.empty() ? 0 : stage_of_[static_cast<std::size_t>(rank)];
  }

  std::unique_ptr<DeviceCommunicator> own_world_;  ///< where none was given
  DeviceCommunicator& world_;
  HostCommunicator& host_;
  std::chrono::milliseconds timeout_;
  std::vector<int> stage_of_;                  ///< by world rank; empty where there is one stage
  std::vector<int> stage_ranks_;               ///< the world ranks of this rank's stage, in order
  std::unique_ptr<DeviceCommunicator> stage_;  ///< null where there is one stage
  Link receive_link_;                          ///< with the stage before
  Link send_link_;                             ///< with the next one
  std::unique_ptr<HostCommunicator> stage_host_;  ///< for ranks of the stage to agree
  std::map<std::vector<int>, std::unique_ptr<DeviceCommunicator>> groups_;
  std::vector<bundle::CollectiveTotal> totals_;
};

}  // namespace autopar::runtime
