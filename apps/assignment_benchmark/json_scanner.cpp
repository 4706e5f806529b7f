#include "json_scanner.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace autopar {

namespace {

constexpr std::size_t buffer_bytes = 1 << 22;
/// So many digits are below 2^63 whatever they are.
constexpr std::size_t safe_digits = 18;
constexpr int deepest_skipped = 1000;

bool is_space(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(int c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonScanner::JsonScanner(const std::string& path)
    : path_(path), buffer_(buffer_bytes), ahead_(buffer_bytes) {
  errno = 0;
  file_ = gzopen(path.c_str(), "rb");
  if (!file_) fail("cannot open '{}': {}", path, std::strerror(errno));
  gzbuffer(file_, static_cast<unsigned>(buffer_bytes));
  read_ahead();
}

JsonScanner::~JsonScanner() {
  if (count_ahead_.valid()) count_ahead_.wait();
  gzclose(file_);
}

void JsonScanner::read_ahead() {
  count_ahead_ = std::async(std::launch::async, [this] {
    errno = 0;
    const int count = gzread(file_, ahead_.data(), static_cast<unsigned>(ahead_.size()));
    return std::pair(count, errno);
  });
}

bool JsonScanner::fill() {
  bytes_before_ += filled_;
  next_ = filled_ = 0;
  const auto [count, error] = count_ahead_.get();
  int code = Z_OK;
  const char* message = gzerror(file_, &code);
  if (code == Z_ERRNO) fail("cannot read '{}': {}", path_, std::strerror(error));
  if (count < 0 || code != Z_OK) fail("cannot read '{}': {}", path_, message);
  std::swap(buffer_, ahead_);
  filled_ = static_cast<std::size_t>(count);
  read_ahead();
  return count > 0;
}

void JsonScanner::refuse(std::string_view problem) const {
  fail("'{}' is no contest instance: {} (byte {})", path_, problem, bytes_before_ + next_);
}

bool JsonScanner::take(char token) {
  while (is_space(peek())) ++next_;
  if (peek() != token) return false;
  ++next_;
  return true;
}

void JsonScanner::expect(char token) {
  if (!take(token)) refuse(std::string("'") + token + "' was expected");
}

std::int64_t JsonScanner::integer() {
  const bool negative = take('-');
  if (!is_digit(peek())) refuse("an integer was expected");
  std::int64_t value = 0;
  const std::size_t end_of_safe = std::min(filled_, next_ + safe_digits);
  while (next_ < end_of_safe && is_digit(buffer_[next_])) {
    value = 10 * value + (buffer_[next_++] - '0');
  }
  while (is_digit(peek())) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, buffer_[next_] - '0', &value)) {
      refuse("an integer exceeds 64 bits");
    }
    ++next_;
  }
  const int after = peek();
  if (after == '.' || after == 'e' || after == 'E') refuse("a number is no integer");
  return negative ? -value : value;
}

std::vector<std::int64_t> JsonScanner::integers() {
  values_.clear();
  array([&] { values_.push_back(integer()); });
  return {values_.begin(), values_.end()};
}

std::string JsonScanner::string() {
  expect('"');
  std::string text;
  while (peek() != '"') {
    if (peek() == end_of_file) refuse("a string has no end");
    if (peek() == '\\') text.push_back(static_cast<char>(buffer_[next_++]));
    if (peek() == end_of_file) continue;
    text.push_back(static_cast<char>(buffer_[next_++]));
  }
  ++next_;
  return text;
}

void JsonScanner::skip() {
  if (depth_ == deepest_skipped) refuse("values are nested too deeply");
  ++depth_;
  while (is_space(peek())) ++next_;
  if (peek() == '{') {
    object([&](const std::string&) { skip(); });
  } else if (peek() == '[') {
    array([&] { skip(); });
  } else if (peek() == '"') {
    string();
  } else {
    const std::size_t before = bytes_before_ + next_;
    while (std::isalnum(peek()) || peek() == '-' || peek() == '+' || peek() == '.') ++next_;
    if (bytes_before_ + next_ == before) refuse("a value was expected");
  }
  --depth_;
}

void JsonScanner::end() {
  while (is_space(peek())) ++next_;
  if (peek() != end_of_file) refuse("something follows its end");
}

}  // namespace autopar
