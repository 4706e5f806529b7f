#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/decoding/decoder.h"
#include "runtime/decoding/sampling.h"
#include "runtime/session.h"

namespace autopar::runtime {

using TokenIds = std::vector<std::int64_t>;

struct GenerationOptions {
  /// Tokens that are made for a prompt; nullopt: as many as the bundle's cache has place for.
  std::optional<std::int64_t> max_tokens = {};
  TokenIds ends = {};  ///< tokens that end a text, which have themselves as their last
  SamplingOptions sampling = {};
  NamedTensors inputs = {};  ///< those that DecoderPorts::other names, the same in each run
};

/// What became of a prompt.
struct GeneratedText {
  TokenIds tokens;            ///< that are new
  bool has_ended = false;     ///< by one of GenerationOptions::ends
  double prompt_seconds = 0;  ///< until the first new token was there
  double step_seconds = 0;    ///< of all others
};

/// Is told of each new token, as it comes, and whether it is the prompt's last.
using TokenSink = std::function<void(std::size_t prompt, std::int64_t token, bool is_last)>;

/// Throws Error, all that is wrong at once, for prompts that are empty, have numbers that are none
/// of the vocabulary, or have no place in a cache that cannot be longer, beside one new token; and
/// where no token may end a text, for those that leave no place for max_tokens.
void check_prompts(const DecoderPorts& ports, const std::vector<TokenIds>& prompts,
                   const GenerationOptions& options);

/// Goes on with each prompt, as many at a time as the bundle's batch has. A run reads a prompt as a
/// whole where the model takes any number of tokens: prompts of different lengths padded behind,
/// which masks hide, or as many tokens as the shortest has. Prompts do not influence each other,
/// and random draws depend on the seed and the prompt's number alone. The session leads others,
/// which follow. Throws Error where the cache is full before max_tokens, and what Session::run
/// does.
std::vector<GeneratedText> generate(Session& session, const DecoderPorts& ports,
                                    const std::vector<TokenIds>& prompts,
                                    const GenerationOptions& options, const TokenSink& sink);

}  // namespace autopar::runtime
