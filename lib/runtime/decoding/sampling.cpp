#include "runtime/decoding/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "base/problems.h"

namespace autopar::runtime {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

std::vector<float> penalised(std::span<const float> scores, std::span<const std::int64_t> text,
                             double penalty) {
  std::vector<float> result(scores.begin(), scores.end());
  if (penalty == 1) return result;
  const auto by = static_cast<float>(penalty);
  for (const std::int64_t token : std::set<std::int64_t>(text.begin(), text.end())) {
    float& score = result[static_cast<std::size_t>(token)];
    score = score < 0 ? score * by : score / by;
  }
  return result;
}

void keep_top_k(std::vector<float>& scores, std::int64_t k) {
  if (k == 0 || k >= std::ssize(scores)) return;
  std::vector<float> sorted = scores;
  const auto kth = sorted.begin() + (k - 1);
  std::ranges::nth_element(sorted, kth, std::greater<>());
  std::ranges::replace_if(
      scores, [least = *kth](float score) { return score < least; }, never);
}

std::vector<double> softmax(std::span<const float> scores) {
  const float largest = std::ranges::max(scores);
  std::vector<double> result;
  result.reserve(scores.size());
  for (const float score : scores) result.push_back(std::exp(double{score} - double{largest}));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& each : result) each /= sum;
  return result;
}

/// The first of equal scores goes first, as a stable sort has it.
void keep_top_p(std::vector<float>& scores, double top_p) {
  if (top_p >= 1) return;
  std::vector<std::size_t> upwards(scores.size());
  std::iota(upwards.begin(), upwards.end(), std::size_t{0});
  std::ranges::stable_sort(upwards, {}, [&](std::size_t token) { return scores[token]; });
  const std::vector<double> likely = softmax(scores);
  double sum = 0;
  for (const std::size_t token : std::span(upwards).first(upwards.size() - 1)) {
    sum += likely[token];
    if (sum > 1 - top_p) return;
    scores[token] = never;
  }
}

std::int64_t largest_of(std::span<const float> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

/// In [0, 1), with the 53 bits of a double: what the library's distribution makes of the same bits
/// is not the same everywhere.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

void check_sampling(const SamplingOptions& options) {
  const auto is_above_0 = [](double value) { return std::isfinite(value) && value > 0; };
  Problems problems;
  if (!is_above_0(options.repetition_penalty))
    problems.add("--repetition-penalty {}: give more than 0; 1 changes nothing",
                 options.repetition_penalty);
  if (!is_above_0(options.temperature))
    problems.add(
        "--temperature {}: give more than 0; without it, --top-k and --top-p the most likely "
        "token is taken",
        options.temperature);
  if (options.top_k < 0) problems.add("--top-k {}: give 1 or more, or 0 for all", options.top_k);
  if (!is_above_0(options.top_p) || options.top_p > 1)
    problems.add("--top-p {}: give more than 0, and 1 at most", options.top_p);
  problems.throw_if_any();
}

std::vector<double> probabilities(std::span<const float> scores, std::span<const std::int64_t> text,
                                  const SamplingOptions& options) {
  std::vector<float> left = penalised(scores, text, options.repetition_penalty);
  for (float& score : left) score /= static_cast<float>(options.temperature);
  keep_top_k(left, options.top_k);
  keep_top_p(left, options.top_p);
  return softmax(left);
}

Sampler::Sampler(const SamplingOptions& options, std::uint64_t stream) : options_(options) {
  const auto half = [](std::uint64_t value, int which) {
    return static_cast<std::uint32_t>(value >> (32 * which));
  };
  std::seed_seq seeds{half(options.seed, 0), half(options.seed, 1), half(stream, 0),
                      half(stream, 1)};
  random_.seed(seeds);
}

std::int64_t Sampler::next(std::span<const float> scores, std::span<const std::int64_t> text) {
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); }))
    fail("the model's scores are no numbers (NaN)");
  if (!options_.draws) return largest_of(penalised(scores, text, options_.repetition_penalty));
  const std::vector<double> likely = probabilities(scores, text, options_);
  double rest = uniform(random_);
  std::size_t last = 0;  // that may be drawn: rounding leaves a rest
  for (std::size_t token = 0; token < likely.size(); ++token) {
    if (likely[token] == 0) continue;
    last = token;
    rest -= likely[token];
    if (rest < 0) break;
  }
  return static_cast<std::int64_t>(last);
}

}  // namespace autopar::runtime
