#include "sharding/axis_renamings.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sharding/spec_key.h"

using namespace autopar::sharding;

TEST_CASE("renamings of symmetric axes are numbered, composed and inverted as their names are") {
  const AxisRenamings renamings({0, 1, 0, 3, 0, 3});
  REQUIRE(renamings.count() == 12);
  CHECK(renamings.names(0) == AxisNames{0, 1, 2, 3, 4, 5});
  std::set<AxisNames> different;
  for (std::size_t a = 0; a < renamings.count(); ++a) {
    const auto first = static_cast<AxisRenamings::Number>(a);
    const AxisNames& names = renamings.names(first);
    different.insert(names);
    CHECK(renamings.number_of(names) == first);
    CHECK(names[1] == 1);
    CHECK(renamings.followed_by(renamings.inverse(first))[first] == 0);
    for (std::size_t b = 0; b < renamings.count(); ++b) {
      const auto second = static_cast<AxisRenamings::Number>(b);
      const AxisNames& both = renamings.names(renamings.followed_by(second)[first]);
      for (std::size_t axis = 0; axis < names.size(); ++axis)
        CHECK(both[axis] == renamings.names(second)[static_cast<std::size_t>(names[axis])]);
    }
  }
  CHECK(different.size() == renamings.count());
}

TEST_CASE("of renamings that make the same spec of one, one stands for all") {
  const AxisRenamings renamings({0, 0, 0, 0, 4});
  for (const char* text : {"RR", "S10R", "S01S2", "S0S1+P2", "S0R+P12", "RR+P0123", "S4S0+P1"}) {
    CAPTURE(text);
    const TensorShardSpec parsed = TensorShardSpec::parse(text);
    const SpecKey key = SpecKey(parsed).renamed(names_by_first_use(parsed, renamings.symmetric()));
    const TensorShardSpec spec = key.spec(2);
    const auto& representatives = renamings.representatives(spec);
    REQUIRE(representatives.size() == renamings.count());
    std::map<TensorShardSpec, AxisRenamings::Number> by_spec;
    for (std::size_t n = 0; n < renamings.count(); ++n) {
      const auto number = static_cast<AxisRenamings::Number>(n);
      const TensorShardSpec made = key.renamed(renamings.names(number)).spec(2);
      const auto known = by_spec.try_emplace(made, representatives[n]).first;
      CHECK(representatives[n] == known->second);
      CHECK(key.renamed(renamings.names(representatives[n])).spec(2) == made);
      // What names_by_first_use makes of it leads back.
      const AxisNames back = names_by_first_use(made, renamings.symmetric());
      CHECK(renamings.number_of(inverse(back)) == representatives[n]);
    }
  }
}
