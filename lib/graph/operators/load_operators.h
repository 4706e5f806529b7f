#pragma once

#include <filesystem>

#include "graph/operators/autopar_operator.h"

namespace autopar::graph {

/// Adds all operators of a shared library (graph/operators/autopar_operator.h), or none: models,
/// plans and runs of this process know them from then on, for good. Throws Error where the library
/// cannot be loaded, has no entry function, is for another version of the interface, or where an
/// operator's definition is wrong or there is one of its name already. Not to be called while other
/// threads read or run models.
void load_operators(const std::filesystem::path& library);

/// The same for what a library's entry function gives; `where` is for messages.
void add_operators(const AutoparLibrary& operators, const std::filesystem::path& where);

}  // namespace autopar::graph
