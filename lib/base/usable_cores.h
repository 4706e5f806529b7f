#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace autopar {

/// Numbers of cores, rising.
using CoreSet = std::vector<int>;

/// "0-3,8", as the kernel and taskset write it. Throws Error for text that is none; `what` begins
/// it.
CoreSet parse_cores(const std::string& what, const std::string& text);

/// Those on which this process may run, by its affinity; none where that is not known: on a machine
/// with more cores than a mask has places, and where libgomp has bound the calling thread alone.
CoreSet cores_of_process();
/// The same into a set, which takes no more memory if it had as many.
void read_cores_of_process(CoreSet& cores);
/// Lets the calling thread, and threads that it starts, run on these alone. Throws Error where none
/// of them can be used.
void bind_thread(const CoreSet& cores);
/// The same, but answers whether it could.
bool try_to_bind_thread(std::span<const int> cores) noexcept;

/// Cores for each of its users, at least 1: each core is shared by those whose set has it.
std::size_t share_of_cores(const std::vector<CoreSet>& sets_of_users, std::size_t user);

/// Cores whose time the control groups above this process give it, rounded down, at least 1; as
/// many as `most` where they limit nothing. `root`: where /proc and /sys are.
std::size_t cores_of_quota(std::size_t most, const std::filesystem::path& root = "/");

/// How many cores the process can keep busy: by its affinity and its quotas, at least 1.
std::size_t usable_cores();

}  // namespace autopar
