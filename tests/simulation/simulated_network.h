#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include "runtime/comm/network.h"

namespace autopar::simulation {

using runtime::Deadline;
using runtime::SocketAddress;
using Duration = std::chrono::microseconds;

/// Thrown into what runs on a machine that is killed, so that its stack is left. No std::exception:
/// nothing that is tested may catch it.
struct Killed {};

/// Machines with a process each, the network between them, and a clock that all share. Processes
/// are fibres of one thread: one of those that can go on is drawn, and when none can the clock is
/// set to what comes next. All that is random is drawn by one generator, so that a seed tells all.
class SimulatedWorld {
 public:
  SimulatedWorld(std::uint64_t seed, int machines);
  ~SimulatedWorld();
  SimulatedWorld(const SimulatedWorld&) = delete;
  SimulatedWorld& operator=(const SimulatedWorld&) = delete;

  runtime::Network& network(int machine);
  std::mt19937_64& random() { return random_; }
  std::int64_t draw(std::int64_t least, std::int64_t most);
  bool draw_chance(int percent) { return draw(0, 99) < percent; }
  Deadline now() const { return now_; }
  static SocketAddress address_of(int machine, std::uint16_t port);

  /// What a machine does, from a time on.
  void start(int machine, Deadline at, std::function<void()> task);
  /// Runs until all tasks have ended; false where that is not before `end`, or nothing can happen.
  bool run(Deadline end);

  void at(Deadline time, std::function<void()> event);

  // Faults, from now on.
  void kill(int machine);       ///< its process ends, and the system closes its connections
  void power_off(int machine);  ///< nothing comes from it any more
  void stall(int machine, Duration time);
  void partition(int a, int b);  ///< nothing gets from one to the other any more
  /// One connection breaks, if there is any; between which machines.
  std::vector<int> cut_connection();
  /// A bit of what is sent next between two of the first `machines`; `tell` hears which two.
  void flip_bit(int machines, std::function<void(int, int)> tell);

 private:
  struct End;
  struct Listening;
  struct Process;
  class MachineNetwork;
  friend class MachineNetwork;

  struct Event {
    Deadline time;
    std::uint64_t number = 0;
    std::function<void()> happen;
    bool operator<(const Event& other) const {
      return std::tie(other.time, other.number) < std::tie(time, number);
    }
  };

  Duration draw_delay();
  bool is_silent(int a, int b) const;
  short ready_events(const pollfd& handle) const;
  bool can_go_on(Process& process) const;
  void resume(Process& process);
  void wait(int machine, std::vector<pollfd>* handles, Deadline until);

  void end_if_killed(int machine) const;

  int connect(int machine, const SocketAddress& to);
  ssize_t send(int machine, int handle, std::span<const iovec> parts);
  ssize_t receive(int machine, int handle, std::span<const iovec> parts, bool stays);
  void close(int machine, int handle);
  void tell_of_news(int machine);
  void deliver(int from, int to, Deadline time, std::function<void()> what);
  void reset(int handle, Deadline time);
  void end_connections(int machine);

  std::mt19937_64 random_;
  Deadline now_;
  std::uint64_t events_made_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<MachineNetwork>> networks_;
  std::vector<std::unique_ptr<Process>> processes_;  ///< by machine
  std::map<int, std::shared_ptr<End>> ends_;
  std::map<int, Listening> listening_;
  std::map<int, bool> alarms_;  ///< whether it has been rung
  int next_handle_ = 3;
  std::uint16_t next_port_ = 20000;
  std::set<std::pair<int, int>> partitions_;
  std::vector<bool> is_off_;
  std::vector<bool> is_dead_;
  int flips_among_ = 0;  ///< machines; 0: none
  std::function<void(int, int)> tell_flip_;
};

}  // namespace autopar::simulation
