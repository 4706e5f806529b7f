#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

namespace autopar::planner {

/// How far a bundle's outputs are from the whole model's.
struct Verification {
  struct Output {
    std::string name;
    double relative_error = 0;  ///< largest difference over the largest magnitude; may be infinite
  };
  std::vector<Output> outputs;  ///< in the model's order
  /// How far sums in another order may be apart in the types that the model computes in: 1e-4, for
  /// float16 1e-2, for bfloat16 8e-2.
  double tolerance = 0;

  /// The last of equal ones. There must be an output.
  const Output& worst() const;
};

/// Runs a bundle, and on the same inputs, which have the bundle's shapes, the whole model that it
/// was made from, with the same loops and constants. nullopt in processes that do not have the
/// bundle's first rank. Throws Error as Session and load_model do, and where the model is another.
std::optional<Verification> verify(const ModelOptions& model,
                                   const std::filesystem::path& bundle_dir,
                                   const runtime::NamedTensors& inputs,
                                   const runtime::SessionOptions& options);

}  // namespace autopar::planner
