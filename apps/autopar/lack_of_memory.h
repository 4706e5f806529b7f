#pragma once

#include <exception>

namespace autopar {

/// From here on the process ends with one line of error and exit code 1 where memory is refused and
/// no exception may pass, or where a library does not survive that it gets none. It is the
/// program's, and not the library's, since it sets the process's handlers.
void end_in_one_line_without_memory();

/// Tells of an error of memory; returns the exit code. Takes no memory itself.
int fail_for_memory(const std::exception& error);

}  // namespace autopar
