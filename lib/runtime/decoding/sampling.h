#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace autopar::runtime {

/// How the next token is picked, as transformers' `generate` has it. Steps come in this order:
/// repetition penalty, temperature, top-k, top-p, draw.
struct SamplingOptions {
  /// False: the token of the largest score, the first of equal ones; temperature, top_k and top_p
  /// are not looked at.
  bool draws = false;
  /// Scores of tokens that the text has are divided by it where positive, else multiplied by it
  /// (Keskar and others 2019, arXiv:1909.05858). Above 0; 1 changes nothing.
  double repetition_penalty = 1;
  double temperature = 1;  ///< scores are divided by it; above 0
  /// Tokens with less than the k-th largest score are out; 0: none is.
  std::int64_t top_k = 0;
  /// The least likely tokens are out whose probabilities add up to 1 - top_p or less, but for the
  /// most likely one (Holtzman and others 2019, arXiv:1904.09751). Above 0, 1 at most.
  double top_p = 1;
  std::uint64_t seed = 0;
};

/// Throws Error, all that is wrong at once, for values that the options may not have.
void check_sampling(const SamplingOptions& options);

/// Probabilities of all tokens, of which one is drawn. `scores` has one for each token of the
/// vocabulary; `text` are the tokens so far.
std::vector<double> probabilities(std::span<const float> scores, std::span<const std::int64_t> text,
                                  const SamplingOptions& options);

/// Picks the tokens of one text. The same seed and stream give the same text on every machine.
class Sampler {
 public:
  /// `stream` tells texts of one seed apart.
  Sampler(const SamplingOptions& options, std::uint64_t stream);

  /// The next token's number. `scores` and `text` as above; throws Error where a score is NaN.
  std::int64_t next(std::span<const float> scores, std::span<const std::int64_t> text);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace autopar::runtime
