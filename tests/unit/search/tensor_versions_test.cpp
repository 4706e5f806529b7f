#include "search/tensor_versions.h"

#include <bit>
#include <catch2/catch.hpp>

using namespace autopar;
using search::SpecList;
using search::TensorVersions;

namespace {

SpecList specs(const std::vector<const char*>& texts) {
  SpecList result;
  for (const char* text : texts) result.push_back(sharding::TensorShardSpec::parse(text));
  std::ranges::sort(result);
  return result;
}

}  // namespace

TEST_CASE("every set of versions has one for each reader, and none more than there are readers") {
  const SpecList first = specs({"RR", "S0R"});
  const SpecList second = specs({"S0R", "RS0"});
  const std::vector<const SpecList*> readers{&first, &second};
  CHECK(search::specs_read(readers) == specs({"RR", "S0R", "RS0"}));
  const TensorVersions versions = search::tensor_versions(readers, {});
  REQUIRE(versions.specs == specs({"RR", "S0R", "RS0"}));
  // S0R alone, and all pairs.
  CHECK(versions.sets.size() == 4);
  for (std::size_t set = 0; set < versions.sets.size(); ++set) {
    const auto has = [&](const char* text) {
      return versions.is_in(versions.index_of(sharding::TensorShardSpec::parse(text)), set);
    };
    CHECK((has("RR") || has("S0R")));
    CHECK((has("S0R") || has("RS0")));
    CHECK(std::popcount(versions.sets[set].specs) <= 2);
    for (const auto& from : versions.specs) CHECK(versions.can_make(from, set));
  }
}

TEST_CASE("where memory matters a set says which of its versions is as the tensor was made") {
  const SpecList read = specs({"RR", "S0R", "RS0"});
  const std::vector<const SpecList*> readers{&read, &read};
  std::vector<int> kinds;  // whole, or split
  for (const auto& spec : read) kinds.push_back(to_string(spec) == "RR" ? 0 : 1);
  const TensorVersions versions = search::tensor_versions(readers, kinds);
  // Each of the 6 sets, with none of its versions as made, or one of each kind that it has.
  CHECK(versions.sets.size() == 6 + 3 + 2 + 2 + 1);
  const auto other = sharding::TensorShardSpec::parse("RR+P0");
  for (std::size_t set = 0; set < versions.sets.size(); ++set) {
    const int made = versions.sets[set].made;
    CHECK(versions.can_make(other, set) == (made == TensorVersions::no_kind));
    for (std::size_t v = 0; v < read.size(); ++v) {
      const int expected = versions.is_in(v, set) ? kinds[v] : TensorVersions::no_kind;
      CHECK(versions.can_make(read[v], set) == (made == expected));
    }
  }
}

TEST_CASE("too many sets are none, sooner where they tell kinds apart") {
  const SpecList read = specs({"RRR", "S0RR", "RS0R", "RRS0", "S1RR", "RS1R", "RRS1", "S0S1R",
                               "S0RS1", "RS0S1", "S1S0R", "S1RS0", "RS1S0"});
  const std::vector<const SpecList*> two{&read, &read};
  const std::vector<const SpecList*> three{&read, &read, &read};
  std::vector<int> kinds(read.size(), 0);
  for (std::size_t v = 0; v < kinds.size(); ++v) kinds[v] = static_cast<int>(v);
  CHECK(search::tensor_versions(two, {}).sets.size() == 13 + 78);
  CHECK(search::tensor_versions(two, kinds).sets.size() == 2 * 13 + 3 * 78);
  CHECK(search::tensor_versions(three, {}).sets.size() == 13 + 78 + 286);
  CHECK(search::tensor_versions(three, kinds).sets.empty());
}
