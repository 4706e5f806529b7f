#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What a TensorScatter says: a cache is [outer, length, inner], its updates [outer, updates,
/// inner]; the outer dimensions of one batch follow one another and have one write index.
struct CacheUpdate {
  std::int64_t outer = 1;
  std::int64_t outer_of_batch = 1;
  std::int64_t length = 1;
  std::int64_t updates = 1;
  std::int64_t inner_bytes = 1;
  bool circular = false;
  bool has_indices = false;
};

CacheUpdate cache_update(const KernelRequest& request);

}  // namespace autopar::runtime
