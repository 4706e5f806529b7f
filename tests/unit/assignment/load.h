#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace autopar::assignment {

/// Keeps cores busy while it lives.
class Load {
 public:
  explicit Load(int threads) {
    for (int k = 0; k < threads; ++k) threads_.emplace_back([this] { burn(); });
  }
  ~Load() { is_over_ = true; }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  void burn() const {
    while (!is_over_) {
    }
  }

  std::atomic<bool> is_over_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace autopar::assignment
