#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sharding/symmetric_axes.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

enum class StepKind { slice, all_reduce, all_gather, reduce_scatter, all_to_all };
/// All kinds but slice, in the order of device files and experiments.
inline constexpr std::array collectives = {StepKind::all_reduce, StepKind::all_gather,
                                           StepKind::reduce_scatter, StepKind::all_to_all};
std::string_view name_of(StepKind kind);  ///< "slice", "all-reduce", "all-gather", ...

/// One slice or collective over the group of `mesh_axes`, which turns `before` into `after`.
struct ReshardStep {
  StepKind kind = StepKind::slice;
  std::vector<int> mesh_axes;  ///< major first
  int dim = -1;        ///< sliced, gathered, scattered or (all-to-all) concatenated dimension
  int split_dim = -1;  ///< all-to-all: the dimension that is split
  Reduce reduce = Reduce::sum;
  TensorShardSpec before;
  TensorShardSpec after;
};

/// The payload V of one rank in the cost formulas, in bytes: all-reduce its local tensor,
/// all-gather the gathered tensor, reduce-scatter the tensor before it is scattered, all-to-all
/// its local tensor before the exchange; 0 for a slice, which communicates nothing.
std::int64_t payload_bytes(const ReshardStep& step, const Shape& shape, graph::DataType type,
                           const DeviceMesh& mesh, int rank);

/// Seconds of one step on a tensor of this global shape; infinite where there is no such step.
using StepPrice =
    std::function<double(const ReshardStep&, const Shape& shape, graph::DataType type)>;

struct Connection {
  std::vector<ReshardStep> steps;
  double seconds = 0;
};

/// Whether some chain of steps leads from `src` to `dst`: values can be reduced, but what is not
/// partial over an axis does not become so, a replicated value least of all.
bool can_connect(const TensorShardSpec& src, const TensorShardSpec& dst);

/// The cheapest chain of steps from `src` to `dst`, by Dijkstra's algorithm over the specs that
/// single steps reach. InternalError where can_connect says no, or no step that there is leads on.
Connection connect(const TensorShardSpec& src, const TensorShardSpec& dst, const Shape& shape,
                   graph::DataType type, const DeviceMesh& mesh, const StepPrice& price);

/// The seconds of `connect` between any specs of a tensor of one shape and type. Each step is
/// priced once, and ways from a spec are found as far as they have been asked for. Keeps a
/// reference to the mesh.
class ConnectionSeconds {
 public:
  /// With `symmetric` axes the specs are canonical, and the way is the cheapest between any specs
  /// that have them.
  ConnectionSeconds(Shape shape, graph::DataType type, const DeviceMesh& mesh, StepPrice price,
                    SymmetricAxes symmetric = {})
      : shape_(std::move(shape)),
        type_(type),
        mesh_(mesh),
        price_(std::move(price)),
        symmetric_(std::move(symmetric)) {}

  /// Infinite where no steps that there are lead from `src` to `dst`.
  double of(const TensorShardSpec& src, const TensorShardSpec& dst);
  /// From each to each; those from one stand together.
  std::vector<double> between(std::span<const TensorShardSpec> from,
                              std::span<const TensorShardSpec> to);

 private:
  using Number = std::size_t;
  struct Step {
    Number to;
    double seconds;
  };

  /// A spec in 12 bits an axis: where it is used, and in which place there.
  using SpecKey = std::array<std::uint64_t, 2>;
  static SpecKey key_of(const TensorShardSpec& spec);
  struct KeyHash {
    std::size_t operator()(const SpecKey& key) const;
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

  std::vector<Number> numbers_of(std::span<const TensorShardSpec> specs);
  Number number_of(const TensorShardSpec& spec);
  const std::vector<Step>& steps_of(Number from);
  /// The ways from a spec, which are final to all of these where any leads there.
  const Ways& ways(Number src, std::span<const Number> destinations);

  const Shape shape_;
  const graph::DataType type_;
  const DeviceMesh& mesh_;
  const StepPrice price_;
  const SymmetricAxes symmetric_;
  std::unordered_map<SpecKey, Number, KeyHash> numbers_;
  std::deque<TensorShardSpec> specs_;                   ///< by number
  std::deque<std::optional<std::vector<Step>>> steps_;  ///< by number of the spec before
  std::map<Number, Ways> ways_;                         ///< by number of the source
};

}  // namespace autopar::sharding
