#include "base/problems.h"

#include <catch2/catch.hpp>

using namespace autopar;

namespace {

struct OwnError : Error {
  using Error::Error;
};

}  // namespace

TEST_CASE("a single problem comes as it was thrown, several with a line each") {
  Problems problems;
  problems.collect([] {});
  CHECK_FALSE(problems.any());
  problems.throw_if_any();
  problems.collect([] { throw OwnError("first"); });
  CHECK_THROWS_AS(problems.throw_if_any(), OwnError);
  problems.collect([] { throw OwnError("first"); });  // the same again
  CHECK_THROWS_AS(problems.throw_if_any(), OwnError);
  problems.add("second of {}", 3);
  Problems outer;
  outer.collect([&] { problems.throw_if_any(); });
  outer.collect([] { fail("third"); });
  try {
    outer.throw_if_any();
    FAIL("nothing was thrown");
  } catch (const SeveralErrors& errors) {
    CHECK(errors.lines() == std::vector<std::string>{"first", "second of 3", "third"});
    CHECK(std::string(errors.what()) == "first; second of 3; third");
  }
}
