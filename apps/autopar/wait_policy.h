#pragma once

namespace autopar {

/// Lets the threads of a parallel loop wait for each other awake for a moment and then asleep, so
/// that they leave the cores to those who have work where others are busy on the machine, too. Does
/// nothing where the environment has a policy of its own. Call it first: the process begins anew,
/// since libgomp reads the environment before main.
void use_short_waits(char** argv);

}  // namespace autopar
