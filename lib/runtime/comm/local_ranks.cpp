#include "runtime/comm/local_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <vector>

namespace autopar::runtime {

namespace {

using MachineName = std::array<char, 128>;

/// Machines may have one host name; the kernel's boot id is its own. Containers count as machines.
MachineName machine_name() {
  std::array<char, 65> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  const std::string name = std::string(host.data()) + " " + boot_id;
  MachineName padded{};
  std::copy_n(name.begin(), std::min(name.size(), padded.size()), padded.begin());
  return padded;
}

}  // namespace

LocalRanks local_ranks(HostCommunicator& world) {
  const MachineName mine = machine_name();
  std::vector<MachineName> all(static_cast<std::size_t>(world.size()));
  world.all_gather(reinterpret_cast<const std::byte*>(mine.data()),
                   reinterpret_cast<std::byte*>(all.data()),
                   std::vector<std::int64_t>(all.size(), sizeof mine));
  const auto before = all.begin() + world.rank();
  return {.rank = static_cast<int>(std::count(all.begin(), before, mine)),
          .count = static_cast<int>(std::ranges::count(all, mine))};
}

}  // namespace autopar::runtime
