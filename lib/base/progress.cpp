#include "base/progress.h"

#include <utility>

namespace autopar {
namespace {

thread_local ProgressListener* current = nullptr;

}  // namespace

ProgressScope::ProgressScope(ProgressListener* listener)
    : before_(std::exchange(current, listener)) {}
ProgressScope::~ProgressScope() { current = before_; }

ProgressListener* progress_listener() { return current; }

void expect_work(std::int64_t whole, ProgressListener::Unit unit) {
  if (current != nullptr) current->expect(whole, unit);
}

void note_done(std::int64_t more) {
  if (current != nullptr) current->note_done(more);
}

void note_gap(double gap) {
  if (current != nullptr) current->note_gap(gap);
}

}  // namespace autopar
