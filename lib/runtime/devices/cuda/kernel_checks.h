#pragma once

/// What a check of the kernels asks of a process through its environment.
namespace autopar::runtime::cuda {

/// AUTOPAR_LAUNCHED_KERNELS=FILE: the name of each kernel, mangled, is appended to the file as a
/// line when the process first launches it, so that it is there however the process ends.
void note_launch(const void* kernel);

/// AUTOPAR_LONG_LOOPS=1: loops count their rounds in 64 bits however few they are, as they do from
/// 2^31 on.
bool counts_all_loops_long();

}  // namespace autopar::runtime::cuda
