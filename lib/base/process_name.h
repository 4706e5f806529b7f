#pragma once

#include <string_view>

namespace autopar {

/// What each line of the log says of this process: "[rank 2] " where it is one rank of several,
/// else empty. A signal's handler may ask.
const char* process_name() noexcept;
/// Up to 31 characters. Call it before there are other threads.
void set_process_name(std::string_view name) noexcept;

}  // namespace autopar
