#pragma once

#include <string>

namespace autopar::runtime {

/// Raises this process's limit of open files, as far as the system lets it, to what a rank of so
/// many needs at most. Throws Error with what to do where that is too low.
void provide_open_files(int ranks);

/// What to say and do where the limit was reached nevertheless.
std::string too_many_open_files(int rank, int ranks);

}  // namespace autopar::runtime
