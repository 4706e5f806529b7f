#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/progress.h"

namespace autopar {

/// Tells a person at a terminal what is going on, once it has taken over a second: a line on
/// standard error with how much is done, the seconds so far and those to come, gone when the work
/// is done. Silent anywhere else.
class ProgressLine final : public ProgressListener {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void expect(std::int64_t whole, Unit unit) override;
  void note_done(std::int64_t more) override;
  void note_gap(double gap) override;

 private:
  void show();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool is_over_ = false;
  Unit unit_ = Unit::nodes;
  std::int64_t whole_ = 0;  ///< 0 where it is not known
  std::int64_t done_ = 0;
  std::optional<double> gap_;
  std::thread thread_;
};

/// How far the work is, as the line tells it: "45 %, 1.2 of 2.7 GiB (3 s, 4 s left)".
std::string progress_text(std::int64_t done, std::int64_t whole, ProgressListener::Unit unit,
                          std::optional<double> gap, int seconds);

/// A ProgressLine while the result lives, as lib/planner's options take it.
std::shared_ptr<ProgressListener> show_progress(const std::string& what);

}  // namespace autopar
