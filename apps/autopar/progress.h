#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace autopar {

/// Tells a person at a terminal what is going on, once it has taken over a second: a line on
/// standard error with the seconds so far, gone when the work is done. Silent anywhere else.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::thread thread_;
};

/// A Progress while the result lives, as lib/planner's options take it.
std::shared_ptr<void> show_progress(const std::string& what);

}  // namespace autopar
