#include "graph/interruption.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "graph/error.h"

using namespace autopar;

TEST_CASE("an interruption is known until a guard that no other encloses is made") {
  {
    const graph::InterruptionGuard outer{SIGINT};
    std::raise(SIGINT);
    CHECK(graph::was_interrupted());
    {
      const graph::InterruptionGuard inner{SIGINT};  // a search within a search
      CHECK(graph::was_interrupted());
    }
    CHECK(graph::was_interrupted());
    CHECK_THROWS_AS(graph::check_interruption(), Error);
  }
  const graph::InterruptionGuard later{SIGINT};
  CHECK_FALSE(graph::was_interrupted());
}

TEST_CASE("work that is needed all the same is interrupted by the next signal alone") {
  {
    const graph::InterruptionGuard guard{SIGINT};
    std::raise(SIGINT);
    {
      const graph::InterruptionReprieve reprieve;
      CHECK_FALSE(graph::was_interrupted());
    }
    CHECK(graph::was_interrupted());
    {
      const graph::InterruptionReprieve reprieve;
      std::raise(SIGINT);
      CHECK(graph::was_interrupted());
    }
    CHECK(graph::was_interrupted());
  }
  const graph::InterruptionGuard later{SIGINT};  // so that the tests behind are not interrupted
  CHECK_FALSE(graph::was_interrupted());
}
