#include "base/work_signs.h"

#include <utility>

namespace autopar {
namespace {

thread_local WorkListener* current = nullptr;

}  // namespace

WorkScope::WorkScope(WorkListener* listener) : before_(std::exchange(current, listener)) {}
WorkScope::~WorkScope() { current = before_; }

WorkListener* work_listener() { return current; }

void note_work() {
  if (current != nullptr) current->note_work();
}

}  // namespace autopar
