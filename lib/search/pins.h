#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/problems.h"
#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::search {

/// One entry of a strategy file: which operators, and what must hold of their strategy. `name` is
/// an operator's name or a glob over names (`*`, `?`); it may also name a model input or weight,
/// whose `outputs` then has the one spec in which it lies. Fields left out allow anything. Where
/// several entries match an operator, the last one that does counts.
struct Pin {
  std::string name;
  std::optional<std::vector<sharding::TensorShardSpec>> inputs;
  std::optional<std::vector<sharding::TensorShardSpec>> outputs;
  std::optional<std::vector<sharding::ReduceFunction>> reductions;
  /// The profile that it is for alone; all where it does not say.
  std::optional<std::string> profile{};
  /// Where a plan in stages had it. A search decides anew where it cuts.
  std::optional<int> stage{};
  /// Specs of single inputs and outputs, by number; those left out may be anything.
  std::map<std::size_t, sharding::TensorShardSpec> some_inputs{};
  std::map<std::size_t, sharding::TensorShardSpec> some_outputs{};
  /// The mesh that its specs are of: it leaves nothing on another one.
  std::optional<sharding::DeviceMesh> mesh{};
  /// The one stage that has all operators with this number, and no other with another number.
  std::optional<int> in_stage{};
};

/// Reads {"operators": [{"name": "...", "inputs": ["RS0", ...], "outputs": [...],
/// "reductions": [...], "profile": "...", "stage": 0}]}. Throws Error naming file and entry.
std::vector<Pin> load_pins(const std::filesystem::path& file);

/// Adds an Error for each that is for another mesh.
void check_meshes(const std::vector<Pin>& pins, const sharding::DeviceMesh& mesh,
                  Problems& problems);

/// Whether its name is an operator's, or a glob that matches one.
bool names_operator(const Pin& pin, const graph::Graph& graph);

/// Whether it names an operator, a model input or a constant.
bool names_anything(const Pin& pin, const graph::Graph& graph);

/// Throws Error, all at once, for entries that can name nothing of a model whose file has these
/// names: what comes from inside of nodes has names that begin with theirs. Nothing is said of
/// globs.
void check_pin_names(const std::vector<Pin>& pins, const std::vector<std::string>& names);

/// Adds an Error for each entry that matches no operator, model input or constant.
void check_names(const std::vector<Pin>& pins, const graph::Graph& graph, Problems& problems);

/// The pins of one graph. An entry whose name matches an operator is for operators alone, except
/// for the tensor of exactly that name.
class Pins {
 public:
  /// Throws Error for what check_names finds, or adds it to `problems`. Keeps a reference to
  /// `pins`.
  Pins(const std::vector<Pin>& pins, const graph::Graph& graph, Problems* problems = nullptr);

  bool is_pinned(const std::string& op_name) const { return pin_of(op_name) != nullptr; }
  const Pin* pin_of(const std::string& op_name) const;  ///< null where it has none
  /// The one that says how a model input or constant lies; null where none does.
  const Pin* pin_of_tensor(const std::string& name) const;
  /// Some entry asks for partial inputs or outputs.
  bool name_partial_values() const;
  /// The strategies among `choices` that the operator's pin allows; all where it has none. Throws
  /// Error, which shows `choices`, where none is left.
  std::vector<sharding::OpShardSpec> allowed(const std::string& op_name,
                                             std::vector<sharding::OpShardSpec> choices) const;
  /// The same for the specs in which a model input or constant may lie.
  std::vector<sharding::TensorShardSpec> allowed(
      const std::string& tensor_name, std::vector<sharding::TensorShardSpec> choices) const;

 private:
  const std::vector<Pin>& pins_;
  std::vector<bool> is_for_operators_;  ///< by pin
};

}  // namespace autopar::search
