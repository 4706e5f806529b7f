#include "unit/runtime/run_node.h"

namespace autopar::runtime::testing {

Device* device_under_test() { return nullptr; }

}  // namespace autopar::runtime::testing
