#pragma once

#include <map>
#include <memory>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// One rank's communication during a run: the communicators of its groups, made when the shard is
/// compiled, and the count of what went through them.
class CollectiveContext {
 public:
  explicit CollectiveContext(Communicator& world) : world_(world) {}

  int world_rank() const { return world_.rank(); }
  /// The communicator of this group of world ranks; made on first use, kept.
  Communicator& group(const std::vector<int>& ranks);

  void count(const bundle::CollectiveTotal& call);
  const std::vector<bundle::CollectiveTotal>& totals() const { return totals_; }
  void reset_totals() { totals_.clear(); }

 private:
  Communicator& world_;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;
  std::vector<bundle::CollectiveTotal> totals_;
};

}  // namespace autopar::runtime
