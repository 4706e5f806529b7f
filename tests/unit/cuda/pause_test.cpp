#include "runtime/devices/cuda/pause.h"

#include <catch2/catch.hpp>

namespace autopar::runtime::cuda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("A wait of microseconds does not sleep, and a long one sleeps a hundredth of it") {
  for (const int waited : {0, 1, 50, 500, 999})
    CHECK(sleep_after(microseconds(waited)).count() == 0);
  CHECK(sleep_after(milliseconds(1)) == microseconds(10));
  CHECK(sleep_after(milliseconds(5)) == microseconds(50));
  CHECK(sleep_after(milliseconds(10)) == microseconds(100));
  CHECK(sleep_after(std::chrono::hours(1)) == microseconds(100));
}

}  // namespace
}  // namespace autopar::runtime::cuda
