#pragma once

#include "assignment/phases.h"
#include "assignment/repetition/repeated_layers.h"

namespace autopar::assignment {

/// The cheapest choices within the limits, below the cutoff, whose first layers are as in one of
/// two choices and whose last layers are as in the other. What joins them is solved anew: the
/// layers at the cut and at both ends, and what is in no layer. `within` uses less than the limits
/// and `beyond` more; the cut is where a mixture comes up to them. Empty where there is none.
Incumbent mix_layers(const Subproblem& whole, const RepeatedLayers& layers, const Choice& within,
                     const Choice& beyond, SolveContext& context);

}  // namespace autopar::assignment
