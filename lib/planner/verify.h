#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

namespace autopar::planner {

/// How far a bundle's outputs are from the whole model's, or from given ones.
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
/// was made from, with the same loops and constants; or compares with the outputs of the folder
/// `expected` (runtime/tensor_folder.h), made elsewhere, if one is given. nullopt in processes that
/// do not have the bundle's first rank. Throws Error as Session and load_model do, where the model
/// is another, and where the folder has no file for an output, or one of another type or shape.
std::optional<Verification> verify(const ModelOptions& model,
                                   const std::filesystem::path& bundle_dir,
                                   const runtime::NamedTensors& inputs,
                                   const runtime::SessionOptions& options,
                                   const std::filesystem::path& expected = {});

}  // namespace autopar::planner
