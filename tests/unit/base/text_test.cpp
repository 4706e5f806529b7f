#include "base/text.h"

#include <catch2/catch.hpp>

using namespace autopar;

TEST_CASE("A distance counts what is inserted, deleted and replaced", "[text]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("flaw", "lawn") == 2);
  CHECK(edit_distance("MatMul", "MatMul") == 0);
}
