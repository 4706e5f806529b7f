#include "prompts.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <sstream>
#include <string_view>

#include "base/problems.h"
#include "base/read_file.h"

namespace autopar {
namespace {

constexpr std::string_view separators = " \t,\r";

std::int64_t number(std::string_view word, const std::string& name, int line) {
  std::int64_t token = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
  if (error != std::errc() || end != word.data() + word.size())
    fail("{}, line {}: '{}' is no number of a token", name, line, word.substr(0, 40));
  return token;
}

runtime::TokenIds tokens_in(std::string_view text, const std::string& name, int line) {
  runtime::TokenIds tokens;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    tokens.push_back(number(word, name, line));
    text.remove_prefix(word.size());
  }
  if (tokens.empty())
    fail("{}, line {} is empty: a prompt has at least one token, as a number", name, line);
  return tokens;
}

}  // namespace

std::vector<runtime::TokenIds> read_prompts(std::istream& lines, const std::string& name) {
  std::vector<runtime::TokenIds> prompts;
  Problems problems;
  std::string text;
  int line = 0;
  while (std::getline(lines, text)) {
    ++line;
    problems.collect([&] { prompts.push_back(tokens_in(text, name, line)); });
  }
  if (lines.bad()) problems.add("{} cannot be read", name);
  if (line == 0) problems.add("{} has no prompt: give a line of tokens for each", name);
  problems.throw_if_any();
  return prompts;
}

std::vector<runtime::TokenIds> read_prompts(const std::filesystem::path& file) {
  if (file == "-") return read_prompts(std::cin, "standard input");
  std::istringstream lines(read_file(file, "--ids {}: {}"));
  return read_prompts(lines, file.string());
}

}  // namespace autopar
