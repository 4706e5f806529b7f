#include "runtime/decoding/sampling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using Catch::Matchers::Contains;
using Scores = std::vector<float>;
using Text = std::vector<std::int64_t>;

/// By the definitions, one token at a time: quadratic, and in no order that the other has.
std::vector<double> by_definition(Scores scores, const Text& text, const SamplingOptions& options) {
  const std::size_t size = scores.size();
  std::vector<double> score(scores.begin(), scores.end());
  for (std::size_t t = 0; t < size; ++t) {
    if (std::ranges::find(text, static_cast<std::int64_t>(t)) != text.end())
      score[t] = score[t] < 0 ? score[t] * options.repetition_penalty
                              : score[t] / options.repetition_penalty;
    score[t] /= options.temperature;
  }
  const auto larger_than = [&](std::size_t t) {
    return std::ranges::count_if(score, [&](double other) { return other > score[t]; });
  };
  std::vector<bool> is_in(size);
  for (std::size_t t = 0; t < size; ++t)
    is_in[t] = options.top_k == 0 || larger_than(t) < options.top_k;
  double sum = 0;
  for (std::size_t t = 0; t < size; ++t) sum += is_in[t] ? std::exp(score[t]) : 0;
  std::vector<double> likely(size);
  for (std::size_t t = 0; t < size; ++t) likely[t] = is_in[t] ? std::exp(score[t]) / sum : 0;
  double kept = 0;
  std::vector<double> result = likely;
  for (std::size_t t = 0; t < size; ++t) {
    double not_more = 0;  // what this token and all less likely ones have
    for (const double other : likely) not_more += other <= likely[t] ? other : 0;
    const bool is_first = larger_than(t) == 0;
    if (options.top_p < 1 && !is_first && not_more <= 1 - options.top_p) result[t] = 0;
    kept += result[t];
  }
  for (double& each : result) each /= kept;
  return result;
}

Scores random_scores(std::mt19937& random, std::size_t size) {
  std::normal_distribution<float> normal(0, 3);
  Scores scores(size);
  std::ranges::generate(scores, [&] { return normal(random); });
  return scores;
}

TEST_CASE("probabilities are those of the definitions") {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const std::size_t size = 1 + random() % 40;
    const Scores scores = random_scores(random, size);
    Text text(random() % 9);
    for (std::int64_t& token : text) token = static_cast<std::int64_t>(random() % size);
    const auto one_of = [&](std::vector<double> values) {
      return values[random() % values.size()];
    };
    const SamplingOptions options{.draws = true,
                                  .repetition_penalty = one_of({1, 1.3, 0.7}),
                                  .temperature = one_of({1, 0.3, 2.5}),
                                  .top_k = static_cast<std::int64_t>(one_of({0, 1, 5, 100})),
                                  .top_p = one_of({1, 0.9, 0.5, 1e-9})};
    CAPTURE(i, size, options.repetition_penalty, options.temperature, options.top_k, options.top_p);
    const std::vector<double> expected = by_definition(scores, text, options);
    const std::vector<double> found = probabilities(scores, text, options);
    REQUIRE(found.size() == size);
    for (std::size_t t = 0; t < size; ++t) {
      CHECK(found[t] == Approx(expected[t]).epsilon(1e-4).margin(1e-12));
      CHECK((found[t] == 0) == (expected[t] == 0));
    }
  }
}

TEST_CASE("equal scores: top-k keeps all of the k-th, top-p the last ones, and greedy the first") {
  const Scores equal(4, 1.5F);
  const std::vector<double> quarter(4, 0.25);
  CHECK(probabilities(equal, {}, {.draws = true, .top_k = 2}) == quarter);
  CHECK(probabilities(equal, {}, {.draws = true, .top_p = 0.5}) ==
        std::vector<double>{0, 0, 0.5, 0.5});
  CHECK(Sampler({}, 0).next(equal, {}) == 0);
}

TEST_CASE("greedy takes the largest score, a repetition penalty counted") {
  const Scores scores = {1, 5, 4, -1};
  CHECK(Sampler({}, 0).next(scores, {}) == 1);
  CHECK(Sampler({.repetition_penalty = 2}, 0).next(scores, Text{1, 1}) == 2);
  CHECK(Sampler({.repetition_penalty = 0.1}, 0).next(scores, Text{0}) == 0);
  const Scores below = {-1, -2};
  CHECK(Sampler({.repetition_penalty = 3}, 0).next(below, Text{0}) == 1);
}

TEST_CASE("tokens are drawn as often as they are likely, and the same for one seed") {
  std::mt19937 random(2);
  const Scores scores = random_scores(random, 12);
  const SamplingOptions options{.draws = true, .temperature = 2, .top_p = 0.9, .seed = 7};
  const std::vector<double> likely = probabilities(scores, {}, options);
  constexpr int draws = 40000;
  std::vector<int> counts(scores.size());
  Sampler sampler(options, 3), same(options, 3), other(options, 4);
  int differ = 0;
  for (int i = 0; i < draws; ++i) {
    const std::int64_t token = sampler.next(scores, {});
    REQUIRE(same.next(scores, {}) == token);
    differ += other.next(scores, {}) != token ? 1 : 0;
    ++counts[static_cast<std::size_t>(token)];
  }
  CHECK(differ > draws / 10);
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const double deviation = std::sqrt(likely[t] * (1 - likely[t]) / draws);
    CHECK(std::abs(counts[t] / double{draws} - likely[t]) <= 5 * deviation);
  }
}

TEST_CASE("options of sampling that cannot be are refused, all at once") {
  CHECK_NOTHROW(check_sampling({}));
  CHECK_THROWS_WITH(check_sampling({.temperature = 0}), Contains("--temperature 0"));
  CHECK_THROWS_WITH(check_sampling({.top_p = 1.5}), Contains("--top-p 1.5"));
  CHECK_THROWS_WITH(check_sampling({.repetition_penalty = -1}),
                    Contains("--repetition-penalty -1"));
  CHECK_THROWS_WITH(check_sampling({.top_k = -2}), Contains("--top-k -2"));
  CHECK_THROWS_AS(check_sampling({.top_k = -2, .top_p = 0}), SeveralErrors);
  const Scores nan = {0, std::numeric_limits<float>::quiet_NaN()};
  CHECK_THROWS_WITH(Sampler({}, 0).next(nan, {}), Contains("NaN"));
}

}  // namespace
}  // namespace autopar::runtime
