#pragma once

namespace autopar::faults {

/// Writes the number of an allocation to the file of AUTOPAR_FAULT_PLACES, a line each, where no
/// allocation before it was made by the same calls: those of its stack's innermost functions. Does
/// nothing without that variable. Allocates nothing.
void note_place(long number);

/// Loads what walks over stacks, which allocates; called before anything is counted.
void prepare_places();

}  // namespace autopar::faults
