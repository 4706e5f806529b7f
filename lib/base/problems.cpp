#include "base/problems.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace autopar {

SeveralErrors::SeveralErrors(std::vector<std::string> lines)
    : Error(fmt::format("{}", fmt::join(lines, "; "))), lines_(std::move(lines)) {}

void Problems::keep(const Error& error, std::exception_ptr thrown) {
  if (!first_) first_ = std::move(thrown);
  const auto* several = dynamic_cast<const SeveralErrors*>(&error);
  const std::vector<std::string> lines =
      several != nullptr ? several->lines() : std::vector<std::string>{error.what()};
  for (const std::string& line : lines) {
    if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
  }
}

void Problems::throw_if_any() const {
  if (lines_.size() > 1) throw SeveralErrors(lines_);
  if (first_) std::rethrow_exception(first_);
}

}  // namespace autopar
