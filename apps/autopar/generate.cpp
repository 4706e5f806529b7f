#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/problems.h"
#include "bundle/meta_info.h"
#include "commands.h"
#include "device_choice.h"
#include "launch.h"
#include "model_options.h"
#include "planner/load_model.h"
#include "planner/shape_source.h"
#include "prompts.h"
#include "runtime/decoding/generation.h"
#include "runtime/session.h"

namespace autopar {
namespace {

using runtime::GeneratedText;
using runtime::TokenIds;

/// Prints texts a line each, in their order: the first that is not at its end as its tokens come,
/// what others get meanwhile when it is their turn.
class OrderedLines {
 public:
  OrderedLines() = default;
  OrderedLines(const OrderedLines&) = delete;
  OrderedLines& operator=(const OrderedLines&) = delete;
  /// An error may come before the end of a line.
  ~OrderedLines() {
    if (is_begun_) std::fputs("\n", stdout);
  }

  void add(std::size_t line, std::int64_t token, bool is_last) {
    if (waiting_.size() <= line - first_) waiting_.resize(line - first_ + 1);
    waiting_[line - first_].tokens.push_back(token);
    waiting_[line - first_].is_whole = is_last;
    print();
  }

 private:
  struct Line {
    TokenIds tokens;  ///< that are not printed yet
    bool is_whole = false;
  };

  void print() {
    while (!waiting_.empty()) {
      Line& line = waiting_.front();
      for (const std::int64_t token : line.tokens) {
        fmt::print("{}{}", is_begun_ ? " " : "", token);
        is_begun_ = true;
      }
      line.tokens.clear();
      if (!line.is_whole) break;
      fmt::print("\n");
      is_begun_ = false;
      ++first_;
      waiting_.pop_front();
    }
    std::fflush(stdout);
  }

  std::deque<Line> waiting_;
  std::size_t first_ = 0;  ///< the number of the first in waiting_
  bool is_begun_ = false;
};

nlohmann::json per_second(std::size_t tokens, double seconds) {
  if (tokens == 0 || seconds <= 0) return nullptr;
  return static_cast<double>(tokens) / seconds;
}

std::string json_line(std::size_t number, const TokenIds& prompt, const GeneratedText& text) {
  const std::size_t steps = text.tokens.empty() ? 0 : text.tokens.size() - 1;
  const nlohmann::json line = {
      {"prompt", number},
      {"prompt_tokens", prompt.size()},
      {"new_tokens", text.tokens.size()},
      {"stop", text.has_ended ? "eos" : "length"},
      {"prompt_tokens_per_second", per_second(prompt.size(), text.prompt_seconds)},
      {"step_tokens_per_second", per_second(steps, text.step_seconds)},
  };
  return line.dump();
}

struct GenerateCommand {
  std::filesystem::path dir;
  std::string limits;
  std::filesystem::path ids;
  std::vector<std::string> input_files;
  DeviceChoice device;
  LaunchChoice launching;
  runtime::GenerationOptions options;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<std::uint64_t> seed;

  void run() {
    Problems problems;
    runtime::SessionOptions session_options;
    std::vector<TokenIds> prompts;
    std::optional<runtime::DecoderPorts> ports;
    problems.collect([&] { session_options.device = device.checked(); });
    problems.collect([&] { session_options.launch = launching.checked(); });
    problems.collect([&] { check_options(); });
    problems.collect([&] {
      if (ids != "-") prompts = read_prompts(ids);
    });
    problems.collect([&] { ports = decoder_ports(); });
    problems.collect([&] { session_options.shapes = planner::shape_source(dir, limits); });
    if (ports && !prompts.empty())
      problems.collect([&] { runtime::check_prompts(*ports, prompts, options); });
    problems.throw_if_any();

    session_options.command = "generate";
    runtime::Session session(dir, session_options);
    if (!session.has_first_rank()) return session.follow();
    try {
      if (ids == "-") prompts = read_prompts(ids);
      generate(session, *ports, prompts);
    } catch (const Error&) {
      session.end_lead();
      throw;
    }
    session.end_lead();
  }

 private:
  void check_options() {
    Problems problems;
    runtime::SamplingOptions& sampling = options.sampling;
    sampling.draws = temperature || top_k || top_p;
    sampling.temperature = temperature.value_or(1);
    sampling.top_k = top_k.value_or(0);
    sampling.top_p = top_p.value_or(1);
    sampling.seed = seed.value_or(0);
    problems.collect([&] { runtime::check_sampling(sampling); });
    if (seed && !sampling.draws)
      problems.add("--seed is for random tokens: give --temperature, --top-k or --top-p with it");
    if (options.max_tokens && *options.max_tokens < 1)
      problems.add("--max-tokens {}: give at least 1", *options.max_tokens);
    for (const std::string& text : input_files) problems.collect([&] { add_input(text); });
    problems.throw_if_any();
  }

  void add_input(const std::string& text) {
    auto [name, tensor] = planner::load_named_tensor("--input", text);
    if (!options.inputs.emplace(name, std::move(tensor)).second)
      fail("--input gives '{}' twice; give it once", name);
  }

  runtime::DecoderPorts decoder_ports() const {
    std::vector<std::string> given;
    for (const std::string& text : input_files) given.push_back(text.substr(0, text.find('=')));
    return runtime::decoder_ports(bundle::load_meta_info(dir), dir, given);
  }

  void generate(runtime::Session& session, const runtime::DecoderPorts& ports,
                const std::vector<TokenIds>& prompts) const {
    OrderedLines lines;
    const std::vector<GeneratedText> texts =
        runtime::generate(session, ports, prompts, options,
                          [&](std::size_t prompt, std::int64_t token, bool is_last) {
                            lines.add(prompt, token, is_last);
                          });
    for (std::size_t i = 0; i < texts.size(); ++i)
      fmt::print("{}\n", json_line(i, prompts[i], texts[i]));
  }
};

}  // namespace

void add_generate_command(CLI::App& app) {
  auto command = std::make_shared<GenerateCommand>();
  CLI::App* sub = app.add_subcommand(
      "generate", "Go on with texts, token by token, by a bundle that is a decoder of text");
  sub->add_option("--dir", command->dir, "The bundle")->required();
  add_limits_option(*sub, command->limits);
  sub->add_option("--ids", command->ids,
                  "Prompts as numbers of tokens, a prompt a line, with spaces or commas between; - "
                  "is standard input (rank 0's)")
      ->required();
  sub->add_option("--max-tokens", command->options.max_tokens,
                  "New tokens for each prompt (default: as many as the bundle has place for)");
  sub->add_option("--eos", command->options.ends, "A token that ends a text; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--temperature", command->temperature,
                  "Draw tokens, by scores that are divided by this (default: the most likely one)");
  sub->add_option("--top-k", command->top_k, "Draw tokens, of the K most likely ones");
  sub->add_option("--top-p", command->top_p,
                  "Draw tokens, of the most likely ones that have this probability together");
  sub->add_option("--seed", command->seed, "Of what is drawn (0)");
  sub->add_option("--repetition-penalty", command->options.sampling.repetition_penalty,
                  "Scores of tokens that the text has are divided by it where positive, else "
                  "multiplied")
      ->capture_default_str();
  sub->add_option("--input", command->input_files,
                  "What any other input gets in each run, NAME=FILE.npy or NAME=FILE.pb; may be "
                  "repeated")
      ->allow_extra_args(false);
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  add_operators_option(*sub);
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
