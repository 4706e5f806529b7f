#include "graph/onnx/import/symbols.h"

#include <catch2/catch.hpp>

using autopar::graph::Symbols;
using autopar::graph::symbols_in;
using Names = std::vector<std::string>;

TEST_CASE("a symbol has the extent that inputs give it, unless they disagree") {
  Symbols symbols;
  symbols.bind("batch", 3, "x");
  symbols.bind("batch", 3, "y");
  CHECK(symbols.extent_of("batch") == 3);
  CHECK(symbols.bindings_of("batch").size() == 1);
  symbols.bind("batch", 4, "z");
  CHECK_FALSE(symbols.extent_of("batch"));
  CHECK(symbols.bindings_of("batch").back().input == "z");
  CHECK_FALSE(symbols.extent_of("unheard of"));
}

TEST_CASE("sums and products of symbols are computed, where every part is known") {
  Symbols symbols;
  symbols.bind("past_sequence_length", 0, "past");
  symbols.bind("sequence_length", 5, "input_ids");
  symbols.bind("s0", 7, "x");
  symbols.bind("s1 + 1", 9, "mask");  // by itself: nothing is known of s1
  CHECK(symbols.computed("past_sequence_length + sequence_length") == 5);
  CHECK(symbols.computed("past_sequence_length+ 1") == 1);
  CHECK(symbols.computed("2*s0 + sequence_length*s0 + 1") == 50);
  CHECK(symbols.extent_of("s1 + 1") == 9);
  for (const char* text : {"s1 + 1", "s0 +", "+", "2*", "s0", "", "s0 + x",
                           "9223372036854775807 + s0", "floor(s0/2) + 1"})
    CHECK_FALSE(symbols.computed(text));
}

TEST_CASE("an expression has the symbols that it is a sum of; another text is a symbol itself") {
  CHECK(symbols_in("batch") == Names{"batch"});
  CHECK(symbols_in("past_sequence + 2*new + 1") == Names{"past_sequence", "new"});
  CHECK(symbols_in("floor(s0/2) + 1") == Names{"floor(s0/2) + 1"});
  CHECK(symbols_in("a b") == Names{"a b"});
  CHECK(symbols_in("7") == Names{"7"});
  CHECK(symbols_in("").empty());
}
