#pragma once

namespace autopar {

/// Who wants to know that a thread is at work and does not hang: the ranks that wait for it.
class WorkListener {
 public:
  virtual ~WorkListener() = default;

  /// The thread has done some of its work. It comes often, and what it throws ends the work.
  virtual void note_work() = 0;
};

/// While it lives, the thread that made it tells a listener of its work; null: nobody.
class WorkScope {
 public:
  explicit WorkScope(WorkListener* listener);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  WorkListener* before_;
};

/// Who listens to this thread, for threads that work for it; may be null.
WorkListener* work_listener();

/// What takes long calls it as it goes on, a few times a second or more: with each piece of a file,
/// each node, each step.
void note_work();

}  // namespace autopar
