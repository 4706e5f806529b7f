#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "bundle/tail_info.h"
#include "runtime/batch_parts.h"

/// A run of several steps, as a decoder makes them: each rank hands its states, outputs that take
/// an input's place, from one step to the next on its own device.
namespace autopar::runtime {

struct LoopOptions {
  /// The place of the largest element along an output's last dimension is the next step's input:
  /// greedy decoding.
  struct Choice {
    std::string output;
    std::string input;
  };

  int steps = 1;
  std::vector<std::string> states;  ///< "present.*=past.*"; none: the bundle's own
  /// An output that is longer than its input is a growing one: what a step has made, its last rows,
  /// goes behind the rows that the input holds, so many at first. Rows that the model itself has
  /// put into their places (graph::keeps_places) stay there.
  std::int64_t start = 0;
  std::vector<Choice> choices;

  bool is_loop() const { return steps > 1; }
};

/// Resolves the options' states, if they name any, and checks that the bundle can be run so. Throws
/// Error: a state whose output is not split as its input is, one that does not hold so many rows,
/// several stages or microbatches, an output or input that there is not, or one that the tail makes
/// or reads, which is computed behind the last step.
void prepare_loop(bundle::MetaInfo& info, const std::optional<bundle::TailInfo>& tail,
                  const LoopOptions& options);

/// Throws Error, all that is wrong at once, for missing, superfluous or misshapen inputs and those
/// of another type. In a loop a tensor may have one more dimension in front, with an entry a step;
/// an input that is chosen may have fewer, and states that are not given begin as zeros. `unread`
/// names inputs that were given and could not be read, which is told elsewhere.
void check_inputs(const bundle::MetaInfo& info, const NamedTensors& inputs,
                  const LoopOptions& options = {}, const std::vector<std::string>& unread = {});

/// What is written before a step: all but, after the first one, states. `chosen` has what the step
/// before has chosen, by input.
NamedTensors inputs_of_step(const bundle::MetaInfo& info, const NamedTensors& inputs,
                            const LoopOptions& options, int step, const NamedTensors& chosen);

/// Places of the largest elements along the last dimension, the first of equal ones, as a tensor of
/// this shape and type. Throws Error for a type that has no order.
graph::Tensor choose(const graph::Tensor& scores, graph::DataType type, const graph::Shape& shape);

}  // namespace autopar::runtime
