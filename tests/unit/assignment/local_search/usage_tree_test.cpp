#include "assignment/local_search/usage_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

TEST_CASE("a usage tree says what a plain list of usages says") {
  std::mt19937 random(71);
  for (const int times : {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}) {
    std::vector<std::int64_t> limits;
    for (int t = 0; t < times; ++t) limits.push_back(draw(random, 0, 30));
    UsageTree tree(limits);
    std::vector<std::int64_t> over;
    for (const std::int64_t limit : limits) over.push_back(-limit);
    for (int step = 0; step < 300; ++step) {
      const int first = draw(random, 0, times);
      const int end = draw(random, first, times);
      const int usage = draw(random, -9, 9);
      tree.add(first, end, usage);
      for (int t = first; t < end; ++t) over[static_cast<std::size_t>(t)] += usage;
      CAPTURE(times, step, first, end, usage);
      if (first < end) {
        REQUIRE(tree.most_in(first, end) ==
                *std::max_element(over.begin() + first, over.begin() + end));
      }
      const auto most = std::ranges::max_element(over);
      REQUIRE(tree.most() == *most);
      REQUIRE(tree.time_of_most() == most - over.begin());
      for (int t = 0; t < times; ++t)
        REQUIRE(tree.excess_at(t) == over[static_cast<std::size_t>(t)]);
    }
  }
}

TEST_CASE("a usage tree without limits is never over one") {
  UsageTree tree(std::vector<std::int64_t>{});
  CHECK(tree.most() < -1'000'000'000'000'000'000);
  tree.add(0, 0, 5);
  CHECK(tree.most() < -1'000'000'000'000'000'000);
}

TEST_CASE("usages of the size of memories are counted exactly in a usage tree") {
  const std::int64_t large = std::int64_t{1} << 50;
  UsageTree tree({large, large + 1, large});
  tree.add(0, 3, large);
  CHECK(tree.most() == 0);
  CHECK(tree.time_of_most() == 0);
  tree.add(1, 2, 2);
  CHECK(tree.most() == 1);
  CHECK(tree.time_of_most() == 1);
}
