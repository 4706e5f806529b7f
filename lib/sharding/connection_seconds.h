#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time_limit.h"
#include "sharding/axis_renamings.h"
#include "sharding/reshard_step.h"
#include "sharding/spec_key.h"

namespace autopar::sharding {

/// Which mesh axes are alike; by default none is taken to be.
struct AlikeAxes {
  /// A step costs the same over any of these, so that ways between specs that differ only in which
  /// of them they use are found once. Null: over none.
  std::shared_ptr<const AxisRenamings> exchangeable = nullptr;
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
        alike_(std::move(alike)),
        renamings_(alike_.exchangeable ? alike_.exchangeable->count() : 1) {}

  /// Infinite where no steps that there are lead from `src` to `dst`.
  double of(const TensorShardSpec& src, const TensorShardSpec& dst);
  /// From each to each; those from one stand together. Up to so many threads find those from
  /// different specs. Throws OutOfTime after the limit; ways that were found till then stay known.
  std::vector<double> between(std::span<const TensorShardSpec> from,
                              std::span<const TensorShardSpec> to,
                              const std::optional<TimeLimit>& limit = {}, std::size_t threads = 1);

 private:
  /// A spec's: its form's times the number of renamings, plus the one that makes it of the form.
  using Number = std::uint32_t;
  using Renaming = AxisRenamings::Number;
  struct Form;
  /// From a form. From what a renaming makes of it, the renaming is done behind this one's.
  struct Step {
    const Form* to;
    Renaming renaming;
    double seconds;
  };
  /// All specs that differ only in which of exchangeable axes they use.
  struct Form {
    Number first;                     ///< the number of the one that uses axes in order
    TensorShardSpec spec;             ///< that one
    const Renaming* representatives;  ///< AxisRenamings has them
    std::optional<std::vector<Step>> steps{};
  };
  struct NamedForm {
    const Form* form;
    Renaming renaming;  ///< that makes the spec of it
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
    /// By end, under the names that make this spec its form.
    const std::vector<Number>* destinations;
  };

  std::vector<NamedForm> named_forms_of(std::span<const TensorShardSpec> specs);
  NamedForm named_form_of(const TensorShardSpec& spec);
  Number number_of(const NamedForm& spec, Renaming then) const;
  /// Several threads may ask at a time.
  const std::vector<Step>& steps_of(std::size_t form);
  std::vector<Step> priced_steps_of(const TensorShardSpec& spec);
  /// Goes on until the ways from the start to all ends are final, if any lead there.
  void find(Ways& ways, const Start& start, std::span<const SpecKey> ends);

  const Shape shape_;
  const graph::DataType type_;
  const DeviceMesh& mesh_;
  const StepPrice price_;
  const AlikeAxes alike_;
  const std::size_t renamings_;
  std::shared_mutex forms_mutex_;  ///< of forms, while threads find ways
  std::unordered_map<SpecKey, std::size_t, SpecKey::Hash> places_;  ///< among the forms
  std::deque<Form> forms_;
  std::map<const Form*, Ways> ways_;  ///< by source
};

}  // namespace autopar::sharding
