#include "base/interruption.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "base/error.h"

using namespace autopar;

TEST_CASE("an interruption is known until a guard that no other encloses is made") {
  {
    const InterruptionGuard outer{SIGINT};
    std::raise(SIGINT);
    CHECK(was_interrupted());
    {
      const InterruptionGuard inner{SIGINT};  // a search within a search
      CHECK(was_interrupted());
    }
    CHECK(was_interrupted());
    CHECK_THROWS_AS(check_interruption(), Error);
  }
  const InterruptionGuard later{SIGINT};
  CHECK_FALSE(was_interrupted());
}

TEST_CASE("work that is needed all the same is interrupted by the next signal alone") {
  {
    const InterruptionGuard guard{SIGINT};
    std::raise(SIGINT);
    {
      const InterruptionReprieve reprieve;
      CHECK_FALSE(was_interrupted());
    }
    CHECK(was_interrupted());
    {
      const InterruptionReprieve reprieve;
      std::raise(SIGINT);
      CHECK(was_interrupted());
    }
    CHECK(was_interrupted());
  }
  const InterruptionGuard later{SIGINT};  // so that the tests behind are not interrupted
  CHECK_FALSE(was_interrupted());
}
