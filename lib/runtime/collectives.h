#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// Whether all ranks of `host` say so; each must ask. Waits for ranks that are still loading or
/// compiling.
bool all_agree(Communicator& host, bool mine);

/// One rank's communication during a run: the communicators of its groups, made when the shard is
/// compiled, and the count of what went through them.
class CollectiveContext {
 public:
  /// `timeout`: how long a collective may wait for a rank that does not come.
  explicit CollectiveContext(Communicator& world,
                             std::chrono::milliseconds timeout = std::chrono::seconds(30))
      : CollectiveContext(world, world, timeout) {}
  /// For a device with memory of its own: `world` moves that, and ranks agree over `host`, which
  /// has the same ranks.
  CollectiveContext(Communicator& world, Communicator& host, std::chrono::milliseconds timeout)
      : world_(world), host_(host), timeout_(timeout) {}

  int world_rank() const { return world_.rank(); }
  int world_size() const { return world_.size(); }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// The communicator of this group of world ranks; made on first use, kept.
  Communicator& group(const std::vector<int>& ranks);

  bool all_agree(bool mine) { return runtime::all_agree(host_, mine); }
  /// Throws Error if a rank has failed or left, as far as is known without waiting.
  void check_members();
  /// Makes every waiting and later collective of any rank throw.
  void abort() noexcept;

  /// See Communicator::report_progress.
  void report_progress(std::int64_t progress) { world_.report_progress(progress); }
  /// Those of the ranks that have reported less; none where reports cannot be seen.
  std::vector<int> ranks_behind(std::span<const int> ranks, std::int64_t progress) const;

  void count(const bundle::CollectiveTotal& call);
  const std::vector<bundle::CollectiveTotal>& totals() const { return totals_; }
  void reset_totals() { totals_.clear(); }

 private:
  Communicator& world_;
  Communicator& host_;
  std::chrono::milliseconds timeout_;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;
  std::vector<bundle::CollectiveTotal> totals_;
};

}  // namespace autopar::runtime
