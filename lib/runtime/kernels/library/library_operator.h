#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime {

/// The kernel that a library has for the operator (graph/operators/library_operator.h), as a
/// table's entry; null where no library has the operator, or not for that device.
///
/// On the host, a kernel's first run is checked: the kernel runs twice in memory of its own, and
/// OperatorFault is thrown where it writes beside its outputs or leaves elements of them as they
/// were. Later runs work in place.
const KernelEntry* find_library_kernel(std::string_view domain, std::string_view op_type,
                                       bool on_gpu);

}  // namespace autopar::runtime
