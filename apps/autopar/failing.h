#pragma once

#include <string>

namespace autopar {

/// From here on the process ends within seconds with this line of error and exit code 1: a rank
/// failed, and libraries that it releases may wait for ever, for another rank or a GPU.
void end_soon(const std::string& why);

/// Whether end_soon() was called. Then the process must not end as others do, where libraries wait
/// for their threads.
bool ends_soon();

}  // namespace autopar
