#include "base/unique_names.h"

#include <catch2/catch.hpp>
#include <vector>

using autopar::UniqueNames;

TEST_CASE("a name that is taken gets the first suffix that is free") {
  struct Item {
    std::string name;
  };
  UniqueNames names("#");
  names.insert("y#1");
  names.insert_names(std::vector<Item>{{"x"}, {"y"}});
  CHECK(names.take("x") == "x#1");
  CHECK(names.take("x") == "x#2");
  CHECK(names.take("y") == "y#2");
  CHECK(names.take("z") == "z");
}

TEST_CASE("a released name is free again, and suffixes are sought from where they were") {
  UniqueNames names;
  CHECK(names.take("x") == "x");
  const UniqueNames::Suffixes before = names.suffixes();
  CHECK(names.take("x") == "x_1");
  names.release("x_1");
  names.set_suffixes(before);
  CHECK(names.take("x") == "x_1");
}
