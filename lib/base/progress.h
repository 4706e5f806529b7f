#pragma once

#include <cstdint>

namespace autopar {

/// Who shows how far a piece of work is. Threads that do it tell, at the same time; what these
/// functions do must be quick and must not throw.
class ProgressListener {
 public:
  enum class Unit { nodes, bytes };

  virtual ~ProgressListener() = default;

  /// All that there is to do, as far as is known. Told again, it is known better; in another unit,
  /// or of work that begins anew, what was done counts for nothing.
  virtual void expect(std::int64_t whole, Unit unit) = 0;
  virtual void note_done(std::int64_t more) = 0;
  /// A search's best answer costs at most this part of its cost too much.
  virtual void note_gap(double gap) = 0;
};

/// While it lives, what the thread that made it does is told to the listener; null: to nobody.
class ProgressScope {
 public:
  explicit ProgressScope(ProgressListener* listener);
  ~ProgressScope();
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

 private:
  ProgressListener* before_;
};

/// This thread's listener, for threads that work for it; may be null.
ProgressListener* progress_listener();

/// These tell this thread's listener, if there is one.
void expect_work(std::int64_t whole, ProgressListener::Unit unit);
void note_done(std::int64_t more);
void note_gap(double gap);

}  // namespace autopar
