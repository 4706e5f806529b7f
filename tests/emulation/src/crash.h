#pragma once

namespace autopar::emulation {

/// Lets a crash say on standard error which thread of which kernel touched what, before it goes its
/// usual way. Cheap; called often, as test frameworks put their own handlers in place and back.
void explain_crashes();

/// Whether the calling thread executes a kernel; threadIdx and blockIdx say where.
bool& executes_kernel();

}  // namespace autopar::emulation
