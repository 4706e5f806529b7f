// Which code is on which device.

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "emulation.h"
#include "machine.h"
#include "stream.h"

namespace autopar::emulation {

namespace {

class LoadedCode {
 public:
  bool has(int device, std::uintptr_t code) {
    const std::lock_guard lock(mutex_);
    return loaded_.contains({device, code});
  }
  void add(int device, std::uintptr_t code) {
    const std::lock_guard lock(mutex_);
    loaded_.emplace(device, code);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    loaded_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<int, std::uintptr_t>> loaded_;
};

LoadedCode& loaded_code() {
  static LoadedCode& instance = *new LoadedCode;
  return instance;
}

}  // namespace

cudaError_t load_code(int device, std::uintptr_t code, const std::string& name) {
  if (machine().loads_eagerly || loaded_code().has(device, code)) return cudaSuccess;
  if (has_waiting_work(device)) {
    report_refusal(device, fmt::format("{} is loaded while work waits for other ranks here, which "
                                       "loading may wait for; load it before",
                                       name));
    return cudaErrorNotPermitted;
  }
  loaded_code().add(device, code);
  return cudaSuccess;
}

void forget_loaded_code() { loaded_code().clear(); }

}  // namespace autopar::emulation
