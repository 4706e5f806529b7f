#pragma once

#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

/// What a run of several steps reads and what it needs of its bundle.
namespace autopar::runtime {

/// Null where there is none of that name.
const bundle::PortInfo* find_port(const std::vector<bundle::PortInfo>& ports,
                                  const std::string& name);

/// Resolves patterns of states, if there are any; else the bundle's own stay. Throws Error for
/// names that no input or output has, and for those of the tail.
void set_states(bundle::MetaInfo& info, const std::vector<std::string>& patterns);

/// Throws Error where the bundle cannot be run so: a state whose output is not split as its input
/// is, several microbatches, an output or input that there is not, or one that the tail makes or
/// reads, which is computed behind the last step.
void check_loop(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                const LoopOptions& options);

/// Whether inputs have the extents of a profile, or any in as many dimensions.
enum class Extents { of_profile, any };

struct InputCheck {
  std::vector<std::string> unread = {};  ///< inputs that could not be read, which is told elsewhere
  Extents extents = Extents::of_profile;
  bool by_options = false;  ///< whether messages say what options of a command give
};

/// Throws Error, all that is wrong at once, for missing, superfluous or misshapen inputs and those
/// of another type. In a loop a tensor may have one more dimension in front, with an entry a step;
/// an input that is chosen may have fewer, and states may be left out.
void check_inputs(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                  const NamedTensors& inputs, const LoopOptions& options = {},
                  const InputCheck& check = {});

/// What is written before a step: all but states that have their values from the step before, or
/// zeros. `chosen`: what the step before has chosen, by input.
NamedTensors inputs_of_step(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                            const NamedTensors& inputs, const LoopOptions& options, int step,
                            const NamedTensors& chosen);

/// The indices of the largest elements along the last dimension, the first of equal ones, as a
/// tensor of this shape and type. Throws Error for a type that has no order.
graph::Tensor choose(const graph::Tensor& scores, graph::DataType type, const graph::Shape& shape);

}  // namespace autopar::runtime
