#pragma once

#include <xxhash.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace autopar {

/// XXH3-64 of bytes that come in pieces.
class Xxh3Stream {
 public:
  Xxh3Stream();
  void add(std::span<const std::byte> bytes);
  /// 16 hex digits of what was added so far.
  std::string digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace autopar
