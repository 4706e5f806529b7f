#include "plan/split_kind.h"

#include <catch2/catch.hpp>

using namespace autopar;
using sharding::TensorShardSpec;

namespace {

plan::SplitKind kind_of(const char* input, const char* output) {
  sharding::OpShardSpec strategy;
  strategy.inputs = {TensorShardSpec::parse(input)};
  strategy.computed = {TensorShardSpec::parse(output)};
  return plan::split_kind(strategy);
}

}  // namespace

TEST_CASE("a picture tells splits apart by where the axes are in the output") {
  using plan::SplitKind;
  CHECK(kind_of("RR", "RRR") == SplitKind::whole);
  CHECK(kind_of("S0R", "S0RR") == SplitKind::first);
  CHECK(kind_of("RS0", "RS0R") == SplitKind::middle);
  CHECK(kind_of("RS0", "RRS01") == SplitKind::last);
  CHECK(kind_of("RS0", "RRR+P0") == SplitKind::sum);
  CHECK(kind_of("RS01", "S0RR+P1") == SplitKind::several);
  CHECK(kind_of("S0R", "S0RS1") == SplitKind::several);
  CHECK(kind_of("S0", "S0") == SplitKind::first);
}

TEST_CASE("what is split and whole behind it is a sum; without outputs an operator is whole") {
  CHECK(kind_of("S0R", ".") == plan::SplitKind::sum);
  CHECK(plan::split_kind({}) == plan::SplitKind::whole);
  CHECK(name_of(plan::SplitKind::several) == "several");
}
