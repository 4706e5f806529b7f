#include "runtime/decoding/generation.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/problems.h"

namespace autopar::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// Tokens that a text may have, those included that come last and are never read; nullopt where
/// nothing bounds them but the options.
std::optional<std::int64_t> most_tokens(const DecoderPorts& ports,
                                        const GenerationOptions& options) {
  const bool is_unbounded = ports.rows == std::numeric_limits<std::int64_t>::max();
  if (is_unbounded || (ports.may_grow() && options.max_tokens)) return std::nullopt;
  return ports.rows + 1;
}

/// What a user does about texts that are too long.
std::string how_to_enlarge(const DecoderPorts& ports) {
  if (ports.may_grow()) return "give --max-tokens";
  if (!ports.state)
    return fmt::format("partition the model with more than {} for tokens (--shape)",
                       ports.new_tokens());
  return fmt::format("partition the model with a longer '{}' than {} (--shape)", ports.state->name,
                     graph::to_string(ports.state->shape));
}

/// New tokens that a prompt may get.
std::int64_t most_new(const DecoderPorts& ports, std::int64_t prompt_tokens,
                      const GenerationOptions& options) {
  if (options.max_tokens) return *options.max_tokens;
  const auto most = most_tokens(ports, options);
  return most ? *most - prompt_tokens : std::numeric_limits<std::int64_t>::max();
}

void check_prompt(const DecoderPorts& ports, std::size_t number, const TokenIds& prompt,
                  const GenerationOptions& options) {
  if (prompt.empty()) fail("prompt {} is empty: give at least one token", number);
  for (const std::int64_t token : prompt)
    if (token < 0 || token >= ports.vocabulary())
      fail("prompt {} has token {}, but the model's are 0 to {}", number, token,
           ports.vocabulary() - 1);
  const auto most = most_tokens(ports, options);
  if (!most) return;
  const std::int64_t place = *most - std::ssize(prompt);
  if (place < 1)
    fail("prompt {} has {} tokens, but the bundle has place for {}: {}", number, prompt.size(),
         *most - 1, how_to_enlarge(ports));
  if (options.ends.empty() && options.max_tokens && *options.max_tokens > place)
    fail("prompt {} of {} tokens: its rows would be full at new token {} of {}: {}", number,
         prompt.size(), place + 1, *options.max_tokens, how_to_enlarge(ports));
}

/// How the prompts of a batch are read.
struct Reading {
  /// By the first run, of each prompt that has so many; others are padded.
  std::int64_t first_tokens = 1;
  /// Rows of caches that all runs make, and tokens of the longest text where there is no cache.
  std::int64_t rows = 0;
};

/// A row of the batch: a prompt and what is made of it.
struct Row {
  std::size_t prompt = 0;  ///< its number
  std::int64_t prompt_tokens = 0;
  TokenIds text;
  std::int64_t most_new = 0;
  Sampler sampler;
  std::int64_t read = 0;  ///< tokens of the text that the cache has
  bool is_done = false;

  /// Tokens that are read at most.
  std::int64_t last_read() const {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return most_new > most - prompt_tokens ? most : prompt_tokens + most_new - 1;
  }
};

/// As many prompts, from number `first` on, as the batch has rows. Where no prompt is left for a
/// row it has the last one's, done.
std::vector<Row> rows_of(const DecoderPorts& ports, const std::vector<TokenIds>& prompts,
                         std::size_t first, const GenerationOptions& options) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < ports.batch(); ++i) {
    const std::size_t wanted = first + static_cast<std::size_t>(i);
    const std::size_t prompt = std::min(wanted, prompts.size() - 1);
    const TokenIds& text = prompts[prompt];
    rows.push_back({.prompt = prompt,
                    .prompt_tokens = std::ssize(text),
                    .text = text,
                    .most_new = most_new(ports, std::ssize(text), options),
                    .sampler = Sampler(options.sampling, prompt),
                    .is_done = wanted != prompt});
  }
  return rows;
}

/// Whether caches, or texts where there is none, have place for so many rows.
bool has_place(const DecoderPorts& ports, std::int64_t rows) {
  return ports.may_grow() || rows <= ports.rows;
}

Reading reading_of(const DecoderPorts& ports, const std::vector<Row>& rows) {
  const auto longest = std::ranges::max(rows, {}, &Row::prompt_tokens).prompt_tokens;
  const auto shortest = std::ranges::min(rows, {}, &Row::prompt_tokens).prompt_tokens;
  const auto last = std::ranges::max(rows, {}, &Row::last_read).last_read();
  Reading reading{.first_tokens = 1, .rows = std::max(last, longest)};
  if (ports.cache == DecoderPorts::Cache::none || !ports.reads_any_number) return reading;
  reading.first_tokens = shortest;
  if (longest == shortest || !ports.may_pad()) return reading;
  // A text that begins with padding ends further behind.
  std::int64_t padded = longest;
  for (const Row& row : rows)
    padded = std::max(padded, row.last_read() + longest - row.prompt_tokens);
  if (!has_place(ports, padded)) return reading;
  return {.first_tokens = longest, .rows = padded};
}

/// Goes on with as many prompts as the batch has rows.
class BatchOfTexts {
 public:
  BatchOfTexts(Session& session, const DecoderPorts& ports, const GenerationOptions& options,
               const TokenSink& sink, std::vector<GeneratedText>& results)
      : session_(session), ports_(ports), options_(options), sink_(sink), results_(results) {}

  /// `rows`: of caches, or of texts where there is none.
  void generate(std::vector<Row> texts, std::int64_t rows) {
    rows_ = std::move(texts);
    capacity_ = rows;
    begin_ = Clock::now();
    if (ports_.cache == DecoderPorts::Cache::none)
      while (!are_done()) read_texts();
    else if (const std::int64_t tokens = reading_of(ports_, rows_).first_tokens; tokens > 1)
      read_tokens(tokens);
    while (!are_done()) read_tokens(1);
  }

 private:
  bool are_done() const { return std::ranges::all_of(rows_, &Row::is_done); }

  void refuse_full(std::int64_t needed) const {
    if (needed <= capacity_) return;
    const auto row = std::ranges::find(rows_, false, &Row::is_done);
    fail("prompt {}: its rows are full at new token {} of {}: {}", row->prompt,
         std::ssize(row->text) - row->prompt_tokens + 1, row->most_new, how_to_enlarge(ports_));
  }

  /// Each row reads so many tokens, or those that it has; one that has ended its last one again.
  void read_tokens(std::int64_t count) {
    const bool is_first = made_ == 0;
    refuse_full(made_ + count);
    const NewTokens tokens = next_tokens(count);
    LoopOptions loop{.continues = !is_first};
    if (is_first || tokens.past != capacity_) loop.past = tokens.past;
    if (is_first && ports_.has_any_rows) loop.capacity = capacity_;
    const std::optional<graph::Tensor> logits =
        count > 1 ? run_unless_refused(tokens, loop) : run(tokens, loop);
    if (!logits) return;
    if (is_first) made_by_first_ = count;
    made_ += count;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      const std::int64_t own = std::ssize(tokens.rows[r]);
      if (is_first) first_.push_back(own);
      row.read += own;
      if (!row.is_done && row.read == std::ssize(row.text))
        add_token(row, scores_of(ports_, *logits, static_cast<std::int64_t>(r), own - 1));
    }
  }

  /// Rows that the caches have in the next run, which reads so many tokens: a prompt needs no empty
  /// ones before it.
  std::int64_t past_of(std::int64_t count) const {
    using Cache = DecoderPorts::Cache;
    if (ports_.cache == Cache::by_place) return 0;
    const bool has_made_alone = ports_.cache == Cache::exact || (count > 1 && ports_.has_any_rows);
    return has_made_alone ? made_ : capacity_;
  }

  NewTokens next_tokens(std::int64_t count) const {
    NewTokens tokens;
    tokens.columns = count;
    tokens.past = past_of(count);
    tokens.made = made_;
    tokens.made_by_first = made_by_first_;
    tokens.first = first_;
    tokens.first.resize(rows_.size());
    for (const Row& row : rows_) {
      const std::int64_t begin = std::min(row.read, std::ssize(row.text) - 1);
      const std::int64_t end = std::min(begin + count, std::ssize(row.text));
      tokens.rows.emplace_back(row.text.begin() + begin, row.text.begin() + end);
      tokens.read.push_back(begin);
    }
    return tokens;
  }

  void read_texts() {
    NewTokens tokens;
    tokens.columns = capacity_;
    for (const Row& row : rows_) {
      if (!row.is_done) refuse_full(std::ssize(row.text));
      const std::int64_t length = std::min(std::ssize(row.text), capacity_);
      tokens.rows.emplace_back(row.text.begin(), row.text.begin() + length);
    }
    tokens.read.assign(rows_.size(), 0);
    tokens.first.assign(rows_.size(), 0);
    const graph::Tensor logits = run(tokens, {});
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (!rows_[r].is_done)
        add_token(rows_[r], scores_of(ports_, logits, static_cast<std::int64_t>(r),
                                      std::ssize(rows_[r].text) - 1));
  }

  graph::Tensor run(const NewTokens& tokens, const LoopOptions& loop) {
    NamedTensors inputs = decoder_inputs(ports_, tokens);
    for (const std::string& name : ports_.other) inputs.emplace(name, options_.inputs.at(name));
    const RunOptions run_options{.loop = loop, .outputs = {ports_.logits.name}};
    return session_.lead(inputs, run_options).outputs.at(ports_.logits.name);
  }

  /// A model may be made for one token, though its inputs are declared for any number, and a long
  /// prompt's run may need too much memory: then its tokens are read one by one.
  std::optional<graph::Tensor> run_unless_refused(const NewTokens& tokens,
                                                  const LoopOptions& loop) {
    try {
      return run(tokens, loop);
    } catch (const Error& refused) {
      if (session_.is_over()) throw;
      spdlog::warn("prompts are read a token at a time: {}", refused.what());
      return std::nullopt;
    }
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
  std::int64_t capacity_ = 0;
  std::int64_t made_ = 0;            ///< rows of caches
  std::int64_t made_by_first_ = 0;   ///< by the first run
  std::vector<std::int64_t> first_;  ///< by row: tokens that the first run has read
  Clock::time_point begin_;
};

/// Rows of caches, or of texts, for all batches, so that their runs have the same shapes.
std::int64_t rows_for(const DecoderPorts& ports, const std::vector<TokenIds>& prompts,
                      const GenerationOptions& options) {
  if (!ports.may_grow()) return ports.rows;
  std::int64_t rows = ports.rows;
  for (std::size_t first = 0; first < prompts.size();
       first += static_cast<std::size_t>(ports.batch()))
    rows = std::max(rows, reading_of(ports, rows_of(ports, prompts, first, options)).rows);
  return rows;
}

}  // namespace

void check_prompts(const DecoderPorts& ports, const std::vector<TokenIds>& prompts,
                   const GenerationOptions& options) {
  Problems problems;
  if (!options.max_tokens && !most_tokens(ports, options))
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
  const std::int64_t rows = rows_for(ports, prompts, options);
  for (std::size_t first = 0; first < prompts.size();
       first += static_cast<std::size_t>(ports.batch()))
    BatchOfTexts(session, ports, options, sink, results)
        .generate(rows_of(ports, prompts, first, options), rows);
  return results;
}

}  // namespace autopar::runtime
