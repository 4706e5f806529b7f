#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "log.h"
#include "planner/summary.h"

namespace autopar {
namespace {

constexpr int bar_width = 20;

/// As much of it is full as is done; where that is not known, a part that moves on.
std::string bar_of(std::int64_t done, std::int64_t whole, int second) {
  std::string bar(bar_width, '-');
  if (whole > 0) {
    const auto full = static_cast<std::size_t>(bar_width * done / whole);
    std::fill_n(bar.begin(), full, '#');
  } else {
    for (int i = 0; i < 5; ++i) bar[static_cast<std::size_t>((second + i) % bar_width)] = '#';
  }
  return bar;
}

}  // namespace

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) && tells_on_standard_error()) thread_ = std::thread([this] { show(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  finished_.notify_one();
  thread_.join();
}

void ProgressLine::expect(std::int64_t whole, Unit unit) {
  const std::lock_guard lock(mutex_);
  whole_ = whole;
  unit_ = unit;
  done_ = 0;
}

void ProgressLine::note_done(std::int64_t more) {
  const std::lock_guard lock(mutex_);
  done_ = whole_ > 0 ? std::min(whole_, done_ + more) : 0;
}

void ProgressLine::note_gap(double gap) {
  const std::lock_guard lock(mutex_);
  gap_ = gap;
}

void ProgressLine::show() {
  std::unique_lock lock(mutex_);
  for (int second = 1;; ++second) {
    if (finished_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; })) break;
    fmt::print(stderr, "\r\033[K[{}] {} {}", bar_of(done_, whole_, second), what_,
               progress_text(done_, whole_, unit_, gap_, second));
    std::fflush(stderr);
  }
  fmt::print(stderr, "\r\033[K");
}

std::string progress_text(std::int64_t done, std::int64_t whole, ProgressListener::Unit unit,
                          std::optional<double> gap, int seconds) {
  std::string text;
  if (whole > 0) text = fmt::format("{} %, ", 100 * done / whole);
  if (whole > 0 && unit == ProgressListener::Unit::bytes)
    text += fmt::format("{} of {}, ", planner::in_bytes(done), planner::in_bytes(whole));
  if (gap) text += fmt::format("within {:.2g} % of the best, ", 100 * *gap);
  text += fmt::format("{} s", seconds);
  if (done > 0 && done < whole) {
    const double left = seconds * static_cast<double>(whole - done) / static_cast<double>(done);
    text += fmt::format(", {:.0f} s left", left);
  }
  return text;
}

std::shared_ptr<ProgressListener> show_progress(const std::string& what) {
  return std::make_shared<ProgressLine>(what);
}

}  // namespace autopar
