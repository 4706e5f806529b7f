#include "runtime/generation.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/problems.h"

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// What a user does about texts that are too long.
std::string how_to_enlarge(const DecoderPorts& ports) {
  if (!ports.state)
    return fmt::format("partition the model with more than {} for tokens (--shape)",
                       ports.new_tokens());
  return fmt::format("partition the model with a longer '{}' than {} (--shape)", ports.state->name,
                     graph::to_string(ports.state->shape));
}

/// New tokens that a prompt may get, by its options and the cache.
std::int64_t most_new(const DecoderPorts& ports, std::int64_t prompt_tokens,
                      const GenerationOptions& options) {
  const std::int64_t asked = options.max_tokens.value_or(std::numeric_limits<std::int64_t>::max());
  if (!ports.most_tokens || options.max_tokens) return asked;
  return std::min(asked, *ports.most_tokens - prompt_tokens);
}

void check_prompt(const DecoderPorts& ports, std::size_t number, const TokenIds& prompt,
                  const GenerationOptions& options) {
  if (prompt.empty()) fail("prompt {} is empty: give at least one token", number);
  for (const std::int64_t token : prompt)
    if (token < 0 || token >= ports.vocabulary())
      fail("prompt {} has token {}, but the model's are 0 to {}", number, token,
           ports.vocabulary() - 1);
  if (!ports.most_tokens) return;
  const std::int64_t place = *ports.most_tokens - std::ssize(prompt);
  if (place < 1)
    fail("prompt {} has {} tokens, but the bundle has place for {}: {}", number, prompt.size(),
         *ports.most_tokens - 1, how_to_enlarge(ports));
  if (options.ends.empty() && options.max_tokens && *options.max_tokens > place)
    fail("prompt {} of {} tokens: its rows would be full at new token {} of {}: {}", number,
         prompt.size(), place + 1, *options.max_tokens, how_to_enlarge(ports));
}

/// A row of the batch: a prompt and what is made of it.
struct Row {
  std::size_t prompt = 0;  ///< its number
  std::int64_t prompt_tokens = 0;
  TokenIds text;
  std::int64_t most_new = 0;
  Sampler sampler;
  bool is_done = false;
};

/// Goes on with as many prompts as the batch has rows.
class BatchOfTexts {
 public:
  BatchOfTexts(Session& session, const DecoderPorts& ports, const GenerationOptions& options,
               const TokenSink& sink, std::vector<GeneratedText>& results)
      : session_(session), ports_(ports), options_(options), sink_(sink), results_(results) {}

  void generate(const std::vector<TokenIds>& prompts, std::size_t first) {
    for (std::int64_t i = 0; i < ports_.batch(); ++i) {
      const std::size_t wanted = first + static_cast<std::size_t>(i);
      const std::size_t prompt = std::min(wanted, prompts.size() - 1);
      const TokenIds& text = prompts[prompt];
      rows_.push_back({.prompt = prompt,
                       .prompt_tokens = std::ssize(text),
                       .text = text,
                       .most_new = most_new(ports_, std::ssize(text), options_),
                       .sampler = Sampler(options_.sampling, prompt),
                       .is_done = wanted != prompt});  // a row that no prompt is left for
    }
    begin_ = Clock::now();
    for (std::int64_t past = 0; !std::ranges::all_of(rows_, &Row::is_done); ++past) {
      refuse_full(past);
      if (ports_.cache == DecoderPorts::Cache::none)
        run_texts();
      else
        run_step(past);
    }
  }

 private:
  void refuse_full(std::int64_t past) const {
    for (const Row& row : rows_) {
      if (row.is_done || !ports_.most_tokens) continue;
      const bool is_full = ports_.cache == DecoderPorts::Cache::none
                               ? std::ssize(row.text) >= *ports_.most_tokens
                               : past + 1 >= *ports_.most_tokens;
      if (is_full)
        fail("prompt {}: its rows are full at new token {} of {}: {}", row.prompt,
             std::ssize(row.text) - row.prompt_tokens + 1, row.most_new, how_to_enlarge(ports_));
    }
  }

  /// Each row reads its token number `past`; one that has ended reads its last one again.
  void run_step(std::int64_t past) {
    NewTokens tokens{.rows = {}, .past = past};
    for (const Row& row : rows_) {
      const std::int64_t place = std::min(past, std::ssize(row.text) - 1);
      tokens.rows.push_back({row.text[static_cast<std::size_t>(place)]});
    }
    const graph::Tensor logits = run(tokens, past == 0);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (!rows_[r].is_done && past == std::ssize(rows_[r].text) - 1)
        add_token(rows_[r], scores_of(ports_, logits, static_cast<std::int64_t>(r), 0));
  }

  void run_texts() {
    NewTokens tokens;
    for (const Row& row : rows_) {
      const std::int64_t length = std::min(std::ssize(row.text), ports_.new_tokens());
      tokens.rows.emplace_back(row.text.begin(), row.text.begin() + length);
    }
    const graph::Tensor logits = run(tokens, false);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (!rows_[r].is_done)
        add_token(rows_[r], scores_of(ports_, logits, static_cast<std::int64_t>(r),
                                      std::ssize(rows_[r].text) - 1));
  }

  graph::Tensor run(const NewTokens& tokens, bool begins) {
    NamedTensors inputs = decoder_inputs(ports_, tokens);
    for (const std::string& name : ports_.other) inputs.emplace(name, options_.inputs.at(name));
    // A session that is given a state begins with zeros in all others.
    if (begins && ports_.state)
      inputs.emplace(ports_.state->name,
                     graph::Tensor::zeros(ports_.state->type, ports_.state->shape));
    return session_.lead(inputs, generation_run(ports_)).outputs.at(ports_.logits.name);
  }

  void add_token(Row& row, const std::vector<float>& scores) {
    const std::int64_t token = row.sampler.next(scores, row.text);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    row.text.push_back(token);
    GeneratedText& result = results_[row.prompt];
    result.tokens.push_back(token);
    if (result.tokens.size() == 1) result.prompt_seconds = seconds;
    result.step_seconds = seconds - result.prompt_seconds;
    result.has_ended = std::ranges::find(options_.ends, token) != options_.ends.end();
    row.is_done = result.has_ended || std::ssize(result.tokens) >= row.most_new;
    sink_(row.prompt, token, row.is_done);
  }

  Session& session_;
  const DecoderPorts& ports_;
  const GenerationOptions& options_;
  const TokenSink& sink_;
  std::vector<GeneratedText>& results_;
  std::vector<Row> rows_;
  Clock::time_point begin_;
};

}  // namespace

RunOptions generation_run(const DecoderPorts& ports) {
  RunOptions options;
  options.loop.continues = ports.state.has_value();
  options.outputs = {ports.logits.name};
  return options;
}

void check_prompts(const DecoderPorts& ports, const std::vector<TokenIds>& prompts,
                   const GenerationOptions& options) {
  Problems problems;
  if (!options.max_tokens && !ports.most_tokens)
    problems.add("nothing in this bundle ends a text: give --max-tokens");
  for (std::size_t i = 0; i < prompts.size(); ++i)
    problems.collect([&] { check_prompt(ports, i, prompts[i], options); });
  problems.throw_if_any();
}

std::vector<GeneratedText> generate(Session& session, const DecoderPorts& ports,
                                    const std::vector<TokenIds>& prompts,
                                    const GenerationOptions& options, const TokenSink& sink) {
  check_prompts(ports, prompts, options);
  std::vector<GeneratedText> results(prompts.size());
  for (std::size_t first = 0; first < prompts.size();
       first += static_cast<std::size_t>(ports.batch()))
    BatchOfTexts(session, ports, options, sink, results).generate(prompts, first);
  return results;
}

}  // namespace autopar::runtime
