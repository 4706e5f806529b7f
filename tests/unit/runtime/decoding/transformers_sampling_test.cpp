#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/decoding/sampling.h"

namespace autopar::runtime {
namespace {

/// What models/sampled_tokens.py has written of transformers' processors.
nlohmann::json cases_of_transformers() {
  std::ifstream file(AUTOPAR_SOURCE_DIR "/tests/unit/runtime/decoding/transformers_sampling.json");
  return nlohmann::json::parse(file);
}

SamplingOptions options_of(const nlohmann::json& one) {
  return {.draws = true,
          .repetition_penalty = one.at("repetition_penalty"),
          .temperature = one.at("temperature"),
          .top_k = one.at("top_k"),
          .top_p = one.at("top_p")};
}

TEST_CASE("the tokens that may be drawn, and how likely each is, are transformers'") {
  const nlohmann::json cases = cases_of_transformers();
  REQUIRE(cases.size() >= 60);
  for (const nlohmann::json& one : cases) {
    const auto scores = one.at("scores").get<std::vector<float>>();
    const auto text = one.at("text").get<std::vector<std::int64_t>>();
    const auto expected = one.at("probabilities").get<std::vector<double>>();
    const std::vector<double> found = probabilities(scores, text, options_of(one));
    CAPTURE(one.dump());
    REQUIRE(found.size() == expected.size());
    for (std::size_t token = 0; token < found.size(); ++token) {
      CAPTURE(token);
      CHECK((found[token] > 0) == (expected[token] > 0));
      CHECK(found[token] == Approx(expected[token]).epsilon(1e-5));
    }
  }
}

}  // namespace
}  // namespace autopar::runtime
