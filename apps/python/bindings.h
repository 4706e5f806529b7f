#pragma once

#include <nanobind/nanobind.h>

/// What the module _native has, which the Python files beside it make autopar's interface of.
/// Options are structs whose fields have the names of the command line's; whoever calls may use any
/// thread, and other threads of Python run meanwhile.
namespace autopar::python {

void bind_planning(nanobind::module_& module);
void bind_session(nanobind::module_& module);

}  // namespace autopar::python
