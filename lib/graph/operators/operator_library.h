#pragma once

#include <filesystem>

#include "graph/operators/autopar_operator.h"

namespace autopar::graph {

/// As load_operators (load_operators.h), for what a library's entry function gives; `where` is for
/// messages. Throws Error.
void add_operators(const AutoparLibrary& operators, const std::filesystem::path& where);

}  // namespace autopar::graph
