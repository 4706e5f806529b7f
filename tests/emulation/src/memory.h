#pragma once

#include <cstddef>

namespace autopar::emulation {

/// The device whose allocation holds all of [pointer, pointer + bytes); -1 if there is none.
int device_holding(const void* pointer, std::size_t bytes);

/// Whether `pointer` is in pinned host memory, with all of its `bytes`.
bool is_pinned(const void* pointer, std::size_t bytes);

/// Frees device memory; false if nothing starts there.
bool free_device_memory(void* pointer);

void reset_peaks();

}  // namespace autopar::emulation
