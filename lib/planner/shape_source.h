#pragma once

#include <filesystem>

#include "runtime/session_options.h"

namespace autopar::planner {

/// Makes graphs for inputs of shapes that no profile of the bundle has, for
/// runtime::SessionOptions::shapes: from the bundle's structure, with the strategies of the profile
/// whose extents are nearest. Nothing is searched, so that each process makes the same. Reads the
/// bundle when it is first asked. Empty where the bundle is for its profiles alone: it has stages,
/// microbatches or a tail. `limits`: what the structure may grow to while it is read, as
/// ModelOptions::limits. Throws Error where meta-info.json cannot be read, or of limits.
runtime::ShapeSource shape_source(const std::filesystem::path& bundle_dir,
                                  const std::string& limits = {});

}  // namespace autopar::planner
