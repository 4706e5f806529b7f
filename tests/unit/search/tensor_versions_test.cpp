#include "search/tensor_versions.h"

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
  const TensorVersions versions = search::counted_versions(readers, {});
  REQUIRE(versions.specs == specs({"RR", "S0R", "RS0"}));
  // S0R alone, and all pairs.
  CHECK(versions.sets.size() == 4);
  for (std::size_t set = 0; set < versions.sets.size(); ++set) {
    const auto has = [&](const char* text) {
      return versions.is_in(versions.index_of(sharding::TensorShardSpec::parse(text)), set);
    };
    CHECK((has("RR") || has("S0R")));
    CHECK((has("S0R") || has("RS0")));
    CHECK(versions.sets[set].specs.size() <= 2);
    for (const auto& from : versions.specs) CHECK(versions.can_make(from, set));
  }
}

TEST_CASE("where memory matters a set says which of its versions is as the tensor was made") {
  const SpecList read = specs({"RR", "S0R", "RS0"});
  const std::vector<const SpecList*> readers{&read, &read};
  std::vector<int> kinds;  // whole, or split
  for (const auto& spec : read) kinds.push_back(to_string(spec) == "RR" ? 0 : 1);
  const TensorVersions versions = search::counted_versions(readers, kinds);
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
  const SpecList made = specs({"S1R", "RR", "S1R"});
  const TensorVersions versions = search::shared_versions(readers, made);
  REQUIRE(versions.specs == specs({"S0R", "S1R"}));
  // The third reader needs a set, the others may read what is theirs alone.
  CHECK(versions.sets.size() == 3);
  CHECK(versions.alone == specs({"RR", "S1R"}));
  const std::vector<const SpecList*> two{&first, &second};
  CHECK(search::shared_versions(two, made).sets.size() == 3);  // one spec, the other, or none
  CHECK(search::shared_versions(two, made, 1).is_empty());
}

namespace {

/// A tensor and those who read it.
struct Readers {
  const SpecList* made;
  std::vector<const SpecList*> read;
};

Readers any_readers(Random& random, int count, search::CostTables& tables) {
  static const std::vector<const char*> all{"RR",  "S0R",  "RS0",  "S1R",  "RS1",  "S2R",
                                            "RS2", "S01R", "RS01", "S0S1", "S1S2", "RR+P0"};
  const auto any_specs = [&](int most) {
    SpecList specs;
    for (int k = pick(random, 1, most); k > 0; --k)
      specs.push_back(sharding::TensorShardSpec::parse(any_of<const char*>(random, all)));
    return tables.shared(std::move(specs));
  };
  Readers readers{any_specs(3), {}};
  for (int reader = 0; reader < count; ++reader) readers.read.push_back(any_specs(5));
  return readers;
}

/// Calls compare(least, expected) for each choice of the tensor's and its readers' specs: the least
/// cost of the ways to have them, and that of one copy for each that differs.
void for_each_choice(const Readers& readers, const TensorVersions& versions,
                     search::CostTables& tables, const auto& compare) {
  const graph::Value value{"x", graph::DataType::float32, {64, 64}, {}};
  const SpecList* const made = readers.made;
  const std::vector<const SpecList*>& read = readers.read;
  const auto making = tables.making(value, made, versions);
  std::vector<int> choice(read.size() + 1, 0);  // of the producer and each reader
  const auto next = [&] {
    for (std::size_t k = 0; k < choice.size(); ++k) {
      const SpecList& list = k == 0 ? *made : *read[k - 1];
      if (++choice[k] < std::ssize(list)) return true;
      choice[k] = 0;
    }
    return false;
  };
  do {
    std::set<sharding::TensorShardSpec> needed;
    assignment::Cost alone = 0;
    for (std::size_t k = 0; k < read.size(); ++k) {
      needed.insert((*read[k])[choice[k + 1]]);
      alone = assignment::plus(
          alone, tables.making_alone(value, made, read[k],
                                     versions)[choice[0] * read[k]->size() + choice[k + 1]]);
    }
    assignment::Cost expected = 0;
    for (const auto& to : needed)
      expected = assignment::plus(expected, tables.connect_cost(value, (*made)[choice[0]], to));
    assignment::Cost least = assignment::impossible;
    for (std::size_t way = 0; way < versions.num_ways(); ++way) {
      assignment::Cost cost =
          assignment::plus(alone, making[choice[0] * versions.num_ways() + way]);
      for (std::size_t k = 0; k < read.size(); ++k)
        cost = assignment::plus(
            cost, tables.reading(value, versions, read[k])[way * read[k]->size() + choice[k + 1]]);
      least = std::min(least, cost);
    }
    compare(least, expected);
  } while (next());
}

cost::CostModel on_three_axes() {
  return cost::CostModel(cost::load_device_model("h200"), sharding::DeviceMesh({2, 2, 2}));
}

}  // namespace

TEST_CASE("the cheapest way to have a tensor costs what the copies cost that readers need") {
  const cost::CostModel model = on_three_axes();
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    search::CostTables tables(model);
    const Readers readers = any_readers(random, pick(random, 1, 4), tables);
    const auto is_equal = [](assignment::Cost least, assignment::Cost expected) {
      REQUIRE(least == expected);
    };
    for_each_choice(readers, tables.versions(readers.read, readers.made), tables, is_equal);
    for_each_choice(readers, tables.shared_versions(readers.read, readers.made), tables, is_equal);
    for_each_choice(readers, tables.relaxed_versions(readers.read, readers.made), tables, is_equal);
  }
}

TEST_CASE("relaxed versions of few sets cost no more than the copies, and no less than a part") {
  const cost::CostModel model = on_three_axes();
  Random random(2);
  int cheaper = 0;
  int equal = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    search::CostTables tables(model);
    const Readers readers = any_readers(random, pick(random, 3, 5), tables);
    const TensorVersions versions =
        search::relaxed_versions(readers.read, *readers.made, pick(random, 1, 20));
    REQUIRE_FALSE(versions.is_empty());
    const auto parts = static_cast<assignment::Cost>(readers.read.size());
    for_each_choice(readers, versions, tables,
                    [&](assignment::Cost least, assignment::Cost expected) {
                      REQUIRE(least <= expected);
                      REQUIRE(least >= expected / parts - parts);
                      (least < expected ? cheaper : equal) += 1;
                    });
  }
  CHECK(cheaper > 1000);
  CHECK(equal > 1000);
}

TEST_CASE("too many sets are none, sooner where they tell kinds apart") {
  const SpecList read = specs({"RRR", "S0RR", "RS0R", "RRS0", "S1RR", "RS1R", "RRS1", "S0S1R",
                               "S0RS1", "RS0S1", "S1S0R", "S1RS0", "RS1S0"});
  const std::vector<const SpecList*> two{&read, &read};
  const std::vector<const SpecList*> three{&read, &read, &read};
  std::vector<int> kinds(read.size(), 0);
  for (std::size_t v = 0; v < kinds.size(); ++v) kinds[v] = static_cast<int>(v);
  CHECK(search::counted_versions(two, {}).sets.size() == 13 + 78);
  CHECK(search::counted_versions(two, kinds).sets.size() == 2 * 13 + 3 * 78);
  CHECK(search::counted_versions(three, {}, 1000).sets.size() == 13 + 78 + 286);
  CHECK(search::counted_versions(three, kinds, 3000).sets.size() == 2 * 13 + 3 * 78 + 4 * 286);
  CHECK(search::counted_versions(three, kinds, 1000).sets.empty());
  // With copies of each reader's own, none is needed of as many specs as there are readers.
  CHECK(search::tensor_versions(two, read).num_ways() == 13 + 13);
  CHECK(search::tensor_versions(three, read).num_ways() == 13 + 78 + 13);
  CHECK(search::tensor_versions(three, read, 90).is_empty());
  CHECK(search::relaxed_versions(three, read, 90).num_ways() == 13 + 13);
}
