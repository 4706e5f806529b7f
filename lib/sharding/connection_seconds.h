#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time_limit.h"
#include "sharding/reshard_step.h"
#include "sharding/spec_key.h"
#include "sharding/symmetric_axes.h"

namespace autopar::sharding {

/// Which mesh axes are alike; by default none is taken to be.
struct AlikeAxes {
  /// A step costs the same over any of these, so that ways between specs that differ only in which
  /// of them they use are found once.
  SymmetricAxes exchangeable{};
  /// Not told apart: specs are canonical, and the way is the cheapest between any specs that have
  /// them.
  SymmetricAxes relaxed{};
};

/// The seconds of `connect` between any specs of a tensor of one shape and type. Each step is
/// priced once, and ways from a spec are found as far as they have been asked for. One thread at a
/// time asks. Keeps a reference to the mesh.
class ConnectionSeconds {
 public:
  ConnectionSeconds(Shape shape, graph::DataType type, const DeviceMesh& mesh, StepPrice price,
                    AlikeAxes alike = {})
      : shape_(std::move(shape)),
        type_(type),
        mesh_(mesh),
        price_(std::move(price)),
        alike_(std::move(alike)) {}

  /// Infinite where no steps that there are lead from `src` to `dst`.
  double of(const TensorShardSpec& src, const TensorShardSpec& dst);
  /// From each to each; those from one stand together. Up to so many threads find those from
  /// different specs. Throws OutOfTime after the limit; ways that were found till then stay known.
  std::vector<double> between(std::span<const TensorShardSpec> from,
                              std::span<const TensorShardSpec> to,
                              const std::optional<TimeLimit>& limit = {}, std::size_t threads = 1);

 private:
  using Number = std::uint32_t;
  struct Step {
    Number to;
    double seconds;
  };
  struct StepToKey {
    SpecKey to;
    double seconds;
  };

  using Seconds = std::pair<double, Number>;  ///< of a way to this spec

  /// Dijkstra's algorithm from one spec. Lists are by number, and may end before the last one.
  struct Ways {
    std::vector<double> seconds{};  ///< of the cheapest way so far; infinite where there is none
    std::vector<char> are_final{};  ///< whether no cheaper way will be found
    std::priority_queue<Seconds, std::vector<Seconds>, std::greater<>> open{};

    /// A way, which counts where it is the cheapest so far.
    void offer(Number to, double seconds_of_way);
    bool is_final(Number to) const { return to < are_final.size() && are_final[to] != 0; }
  };

  /// One of the specs from which ways were asked for.
  struct Start {
    std::size_t place;  ///< among them
    SpecKey key;
    /// By end, under the names that make this spec the source of the ways.
    const std::vector<Number>* destinations;
  };

  /// The numbers of the specs under other names of their axes.
  std::vector<Number> numbers_of(std::span<const TensorShardSpec> specs, const AxisNames& names);
  Number number_of(const SpecKey& key);
  /// Several threads may ask at a time.
  const std::vector<Step>& steps_of(Number from);
  std::vector<Step> found_steps_of(Number from);
  std::vector<StepToKey> priced_steps_of(const TensorShardSpec& spec) const;
  /// Goes on until the ways from the start to all ends are final, if any lead there.
  void find(Ways& ways, const Start& start, std::span<const SpecKey> ends);

  const Shape shape_;
  const graph::DataType type_;
  const DeviceMesh& mesh_;
  const StepPrice price_;
  const AlikeAxes alike_;
  std::shared_mutex steps_mutex_;  ///< of all members below but ways_, while threads find ways
  std::unordered_map<SpecKey, Number, SpecKey::Hash> numbers_;
  std::vector<SpecKey> keys_;                           ///< by number
  std::deque<std::optional<std::vector<Step>>> steps_;  ///< by number of the spec before
  /// By spec that uses exchangeable axes in order: its steps, for all that become it under other
  /// names.
  std::unordered_map<SpecKey, std::vector<StepToKey>, SpecKey::Hash> steps_once_;
  std::map<Number, Ways> ways_;  ///< by number of the source
};

}  // namespace autopar::sharding
