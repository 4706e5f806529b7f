#pragma once

namespace autopar {

/// Makes the threads of a parallel loop spin for a moment and then sleep while they wait for each
/// other, which leaves the cores to other processes on a busy machine. Does nothing where the
/// environment sets a policy. Call it first: it executes the program again, since libgomp reads the
/// environment before main.
void use_short_waits(char** argv);

}  // namespace autopar
