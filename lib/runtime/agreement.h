#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

/// What the processes of a session must have been given alike. Ranks that work on different inputs
/// would return a mixture of them, and ranks with other options wait for each other in vain.
namespace autopar::runtime {

/// An option or an input, as a user knows it.
struct Given {
  std::string name;                  ///< "--steps", "input 'x'"
  std::optional<std::string> value;  ///< absent where it was not given; may be empty
  std::string digest = {};           ///< of what a message cannot show
  bool operator==(const Given&) const = default;
};

/// A session's options that decide what ranks tell each other. `bundle_digest`: of what they run.
std::vector<Given> given_to_session(const SessionOptions& options,
                                    const std::string& bundle_digest);
/// Each input's type, shape and digest, and the options of a run.
std::vector<Given> given_to_run(const NamedTensors& inputs, const RunOptions& options);

/// Every rank of the world calls it, and all of them throw the same Error where a rank was given
/// something else than rank 0: who, what, and what instead.
void require_agreement(const std::vector<Given>& mine, HostCommunicator& world);

}  // namespace autopar::runtime
