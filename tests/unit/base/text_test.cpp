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

TEST_CASE("A glob's stars stand for anything, slashes and dots among it", "[text]") {
  CHECK(is_glob("past.*"));
  CHECK(is_glob("layer.[0-9]"));
  CHECK(is_glob("?"));
  CHECK_FALSE(is_glob("model/layers.0/MatMul"));
  CHECK(matches_glob("*/MatMul", "model/layers.0/MatMul"));
  CHECK(matches_glob("past.*.key", "past.11.key"));
  CHECK_FALSE(matches_glob("past.*.key", "past.11.value"));
  CHECK_FALSE(matches_glob("past.?.key", "past.11.key"));
}
