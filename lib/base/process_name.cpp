#include "base/process_name.h"

#include <algorithm>
#include <array>

namespace autopar {

namespace {

std::array<char, 32> name_of_process{};

}  // namespace

const char* process_name() noexcept { return name_of_process.data(); }

void set_process_name(std::string_view name) noexcept {
  name_of_process = {};
  std::ranges::copy(name.substr(0, name_of_process.size() - 1), name_of_process.begin());
}

}  // namespace autopar
