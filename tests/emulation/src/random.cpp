#include "random.h"

#include <atomic>

#include "emulation.h"

namespace autopar::emulation {

namespace {

std::atomic<std::uint64_t> seed = 1;
std::atomic<std::uint64_t> generation = 1;
std::atomic<std::uint64_t> threads = 0;

/// splitmix64.
struct Generator {
  std::uint64_t state = 0;
  std::uint64_t generation = 0;
  std::uint64_t thread = threads++;

  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t x = state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
};

}  // namespace

void set_seed(std::uint64_t value) {
  seed = value;
  ++generation;
}

std::uint64_t random_below(std::uint64_t bound) {
  thread_local Generator generator;
  if (generator.generation != generation) {
    generator.generation = generation;
    generator.state = seed * 0x2545f4914f6cdd1du + generator.thread;
  }
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(generator.next()) * bound >> 64);
}

}  // namespace autopar::emulation
