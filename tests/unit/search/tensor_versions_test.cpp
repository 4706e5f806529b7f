#include "search/tensor_versions.h"

#include <bit>
#include <catch2/catch.hpp>
#include <set>

#include "search/cost_tables.h"
#include "unit/program/random_graph.h"

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

TEST_CASE("of shared versions, what one reader alone may read is in no set") {
  const SpecList first = specs({"RR", "S0R", "S1R"});
  const SpecList second = specs({"S0R", "RS0", "S1R"});
  const SpecList third = specs({"S0R", "S1R"});
  const std::vector<const SpecList*> readers{&first, &second, &third};
  const TensorVersions versions = search::shared_versions(readers);
  REQUIRE(versions.specs == specs({"S0R", "S1R"}));
  // The third reader needs a set, the others may read what is theirs alone.
  CHECK(versions.sets.size() == 3);
  const std::vector<const SpecList*> two{&first, &second};
  CHECK(search::shared_versions(two).sets.size() == 4);
  CHECK(search::shared_versions(two, 2).sets.empty());
}

TEST_CASE("sets of shared versions cost what the copies cost that readers need") {
  const std::vector<const char*> all{"RR",  "S0R",  "RS0",  "S1R",  "RS1",  "S2R",
                                     "RS2", "S01R", "RS01", "S0S1", "S1S2", "RR+P0"};
  const cost::CostModel model(cost::load_device_model("h200"), sharding::DeviceMesh({2, 2, 2}));
  const graph::Value value{"x", graph::DataType::float32, {64, 64}, {}};
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const auto any_specs = [&](std::size_t most) {
      SpecList made;
      const auto count = static_cast<std::size_t>(pick(random, 1, static_cast<int>(most)));
      while (made.size() < count)
        made.push_back(sharding::TensorShardSpec::parse(any_of<const char*>(random, all)));
      return made;
    };
    search::CostTables tables(model);
    const SpecList* made = tables.shared(any_specs(3));
    std::vector<const SpecList*> read;
    for (int reader = 0; reader < 3; ++reader) read.push_back(tables.shared(any_specs(5)));
    const TensorVersions& versions = tables.shared_versions(read);
    if (versions.sets.empty()) continue;
    const auto making = tables.making(value, made, versions);
    std::vector<int> choice{0, 0, 0, 0};  // of the producer and each reader
    const auto next = [&] {
      for (std::size_t k = 0; k < choice.size(); ++k) {
        const SpecList& list = k == 0 ? *made : *read[k - 1];
        if (++choice[k] < std::ssize(list)) return true;
        choice[k] = 0;
      }
      return false;
    };
    do {
      const auto from = (*made)[choice[0]];
      std::set<sharding::TensorShardSpec> needed;
      for (std::size_t k = 0; k < 3; ++k) needed.insert((*read[k])[choice[k + 1]]);
      assignment::Cost expected = 0;
      for (const auto& to : needed)
        expected = assignment::plus(expected, tables.connect_cost(value, from, to));
      assignment::Cost alone = 0;
      for (std::size_t k = 0; k < 3; ++k)
        alone = assignment::plus(
            alone, tables.making_alone(value, made, read[k],
                                       versions)[choice[0] * read[k]->size() + choice[k + 1]]);
      assignment::Cost least = assignment::impossible;
      for (std::size_t set = 0; set < versions.sets.size(); ++set) {
        assignment::Cost cost =
            assignment::plus(alone, making[choice[0] * versions.sets.size() + set]);
        for (std::size_t k = 0; k < 3; ++k)
          cost = assignment::plus(
              cost, tables.reading(versions, read[k])[set * read[k]->size() + choice[k + 1]]);
        least = std::min(least, cost);
      }
      REQUIRE(least == expected);
    } while (next());
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
  CHECK(search::tensor_versions(three, {}, 1000).sets.size() == 13 + 78 + 286);
  CHECK(search::tensor_versions(three, kinds, 3000).sets.size() == 2 * 13 + 3 * 78 + 4 * 286);
  CHECK(search::tensor_versions(three, kinds, 1000).sets.empty());
}
