#include "simulation/simulated_network.h"

#include <cxxabi.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fibre/fibre.h"

namespace autopar::simulation {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t buffer_bytes = 8192;  // of a direction, so that large messages fill it

/// What the C++ runtime knows of a thread's exceptions: each fibre has its own.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

void exchange(ExceptionState& state) {
  auto* const of_thread = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  std::swap(*of_thread, state);
}

int machine_of(const SocketAddress& address) {
  const auto& in = reinterpret_cast<const sockaddr_in&>(address.storage);
  return static_cast<int>(ntohl(in.sin_addr.s_addr) & 0xff) - 1;
}
std::uint16_t port_of(const SocketAddress& address) {
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

}  // namespace

/// One end of a connection.
struct SimulatedWorld::End {
  int machine = 0;
  int peer_machine = 0;
  int peer = -1;  ///< its handle
  SocketAddress local;
  SocketAddress remote;
  bool is_connected = false;
  bool is_closed = false;  ///< here
  int error = 0;           ///< of connecting, or a reset
  bool has_ended = false;  ///< the peer has closed
  std::deque<std::byte> arrived;
  std::size_t under_way = 0;     ///< bytes that have not come to this end yet
  std::uint64_t generation = 0;  ///< of what is under way: what was dropped is of an older one
  Deadline last_delivery;        ///< to this end: what comes is in order
};

struct SimulatedWorld::Listening {
  int machine = 0;
  SocketAddress address;
  std::deque<int> waiting;
};

struct SimulatedWorld::Process {
  std::function<void()> task;
  Deadline goes_on_at;  ///< no earlier: not started, or stalled
  bool has_ended = true;
  bool is_killed = false;
  std::vector<pollfd>* awaited = nullptr;
  Deadline until;
  bool has_news = true;  ///< something has happened to its handles since they were looked at
  ExceptionState exceptions;
  Fibre fibre{0};
};

class SimulatedWorld::MachineNetwork final : public runtime::Network {
 public:
  MachineNetwork(SimulatedWorld& world, int machine) : world_(world), machine_(machine) {}

  Deadline now() override { return world_.now_; }
  void sleep_until(Deadline time) override {
    std::vector<pollfd> none;
    world_.wait(machine_, &none, time);
  }
  int listen(const SocketAddress& address) override {
    const std::uint16_t port = port_of(address);
    const int handle = world_.next_handle_++;
    world_.listening_[handle] = {
        .machine = machine_,
        .address = address_of(machine_, port != 0 ? port : world_.next_port_++),
        .waiting = {}};
    return handle;
  }
  int accept(int listener) override {
    const auto found = world_.listening_.find(listener);
    if (found == world_.listening_.end() || found->second.waiting.empty()) return -EAGAIN;
    const int handle = found->second.waiting.front();
    found->second.waiting.pop_front();
    return handle;
  }
  int connect(const SocketAddress& address) override { return world_.connect(machine_, address); }
  int connect_error(int socket) override {
    const End& end = *world_.ends_.at(socket);
    return end.is_connected ? 0 : end.error;
  }
  void close(int handle) noexcept override { world_.close(machine_, handle); }
  SocketAddress local_address(int socket) override {
    const auto listening = world_.listening_.find(socket);
    return listening != world_.listening_.end() ? listening->second.address
                                                : world_.ends_.at(socket)->local;
  }
  SocketAddress peer_address(int socket) override { return world_.ends_.at(socket)->remote; }
  ssize_t send(int socket, std::span<const iovec> parts) noexcept override {
    return world_.send(machine_, socket, parts);
  }
  ssize_t receive(int socket, std::span<const iovec> parts) override {
    return world_.receive(machine_, socket, parts, false);
  }
  ssize_t peek(int socket, std::span<std::byte> bytes) override {
    const iovec part{bytes.data(), bytes.size()};
    return world_.receive(machine_, socket, {&part, 1}, true);
  }
  std::int64_t unsent(int socket) noexcept override {
    const End& end = *world_.ends_.at(socket);
    const auto peer = world_.ends_.find(end.peer);
    if (world_.is_dead_[std::size_t(machine_)] || end.error != 0 || peer == world_.ends_.end())
      return 0;
    return static_cast<std::int64_t>(peer->second->under_way);
  }
  int make_alarm() override {
    world_.alarms_[world_.next_handle_] = false;
    return world_.next_handle_++;
  }
  void ring(int alarm) noexcept override {
    world_.alarms_[alarm] = true;
    world_.tell_of_news(machine_);
  }
  int poll(std::span<pollfd> handles, Deadline deadline) override {
    std::vector<pollfd> awaited(handles.begin(), handles.end());
    const bool is_ready = std::ranges::any_of(
        awaited, [&](const pollfd& each) { return world_.ready_events(each) != 0; });
    // Others may go first even where nothing has to be waited for.
    if (!is_ready && deadline > world_.now_)
      world_.wait(machine_, &awaited, deadline);
    else if (world_.draw_chance(20))
      world_.wait(machine_, &awaited, world_.now_);
    world_.end_if_killed(machine_);
    int ready = 0;
    for (pollfd& each : handles) {
      each.revents = world_.ready_events(each);
      ready += static_cast<int>(each.revents != 0);
    }
    return ready;
  }

 private:
  SimulatedWorld& world_;
  int machine_;
};

SimulatedWorld::SimulatedWorld(std::uint64_t seed, int machines)
    : random_(seed), now_(1000s), is_off_(std::size_t(machines)), is_dead_(std::size_t(machines)) {
  for (int machine = 0; machine < machines; ++machine) {
    networks_.push_back(std::make_unique<MachineNetwork>(*this, machine));
    processes_.push_back(std::make_unique<Process>());
  }
}

SimulatedWorld::~SimulatedWorld() {
  // Stacks that are left here would keep what they own.
  for (int machine = 0; machine < static_cast<int>(processes_.size()); ++machine) {
    Process& process = *processes_[std::size_t(machine)];
    is_dead_[std::size_t(machine)] = true;
    process.is_killed = true;
    while (!process.has_ended) resume(process);
  }
}

runtime::Network& SimulatedWorld::network(int machine) { return *networks_[std::size_t(machine)]; }

std::int64_t SimulatedWorld::draw(std::int64_t least, std::int64_t most) {
  return least +
         static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
}

SocketAddress SimulatedWorld::address_of(int machine, std::uint16_t port) {
  SocketAddress address;
  auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(0x0a000000u + static_cast<std::uint32_t>(machine) + 1);
  in.sin_port = htons(port);
  address.length = sizeof in;
  return address;
}

void SimulatedWorld::start(int machine, Deadline at, std::function<void()> task) {
  Process& process = *processes_[std::size_t(machine)];
  process.task = [&process, task = std::move(task)] {
    try {
      if (!process.is_killed) task();
    } catch (const Killed&) {
    }
    process.has_ended = true;
  };
  process.has_ended = false;
  process.goes_on_at = at;
}

void SimulatedWorld::at(Deadline time, std::function<void()> event) {
  events_.push({.time = time, .number = events_made_++, .happen = std::move(event)});
}

bool SimulatedWorld::run(Deadline end) {
  std::vector<Process*> ready;
  while (true) {
    ready.clear();
    bool have_all_ended = true;
    Deadline next = Deadline::max();
    for (const auto& process : processes_) {
      if (process->has_ended) continue;
      have_all_ended = false;
      if (can_go_on(*process)) ready.push_back(process.get());
      next = std::min(next, process->goes_on_at > now_ ? process->goes_on_at : process->until);
    }
    if (have_all_ended) return true;
    if (!ready.empty()) {
      resume(*ready[std::size_t(draw(0, std::ssize(ready) - 1))]);
      continue;
    }
    if (!events_.empty()) next = std::min(next, events_.top().time);
    if (next > end) return false;
    now_ = std::max(now_, next);
    while (!events_.empty() && events_.top().time <= now_) {
      const Event event = events_.top();
      events_.pop();
      event.happen();
    }
  }
}

bool SimulatedWorld::can_go_on(Process& process) const {
  if (process.is_killed) return true;
  if (process.goes_on_at > now_) return false;
  if (process.awaited == nullptr || process.until <= now_) return true;
  process.has_news =
      process.has_news && std::ranges::any_of(*process.awaited, [&](const pollfd& each) {
        return ready_events(each) != 0;
      });
  return process.has_news;
}

void SimulatedWorld::resume(Process& process) {
  exchange(process.exceptions);
  process.fibre.resume(process.task);
  exchange(process.exceptions);
}

void SimulatedWorld::wait(int machine, std::vector<pollfd>* handles, Deadline until) {
  Process& process = *processes_[std::size_t(machine)];
  if (process.is_killed) return;
  process.awaited = handles;
  process.until = until;
  process.has_news = true;
  process.fibre.suspend();
  process.awaited = nullptr;
}

/// Leaves the stack of a process that was killed.
void SimulatedWorld::end_if_killed(int machine) const {
  if (processes_[std::size_t(machine)]->is_killed && std::uncaught_exceptions() == 0)
    throw Killed();
}

short SimulatedWorld::ready_events(const pollfd& handle) const {
  if (const auto alarm = alarms_.find(handle.fd); alarm != alarms_.end())
    return static_cast<short>(alarm->second ? POLLIN : 0);
  if (const auto listening = listening_.find(handle.fd); listening != listening_.end())
    return static_cast<short>(listening->second.waiting.empty() ? 0 : POLLIN);
  const auto found = ends_.find(handle.fd);
  if (found == ends_.end()) return handle.fd < 0 ? 0 : POLLNVAL;
  const End& end = *found->second;
  int events = 0;
  if (end.error != 0) events |= POLLIN | POLLOUT | POLLERR | POLLHUP;
  if (!end.arrived.empty() || end.has_ended) events |= POLLIN;
  if (end.is_connected) {
    const auto peer = ends_.find(end.peer);
    if (peer == ends_.end() ||
        peer->second->under_way + peer->second->arrived.size() < buffer_bytes)
      events |= POLLOUT;
  }
  return static_cast<short>(events & (handle.events | POLLERR | POLLHUP));
}

Duration SimulatedWorld::draw_delay() {
  if (draw_chance(2)) return Duration(draw(20'000, 120'000));
  return Duration(draw_chance(30) ? draw(1'000, 20'000) : draw(10, 500));
}

bool SimulatedWorld::is_silent(int a, int b) const {
  return is_off_[std::size_t(a)] || is_off_[std::size_t(b)] ||
         partitions_.contains({std::min(a, b), std::max(a, b)});
}

/// Things happen at an end in the order in which they were sent there.
void SimulatedWorld::deliver(int from, int to, Deadline time, std::function<void()> what) {
  at(time, [this, from, to, what = std::move(what)] {
    if (is_silent(from, to)) return;
    what();
    tell_of_news(from);
    tell_of_news(to);
  });
}

void SimulatedWorld::tell_of_news(int machine) {
  processes_[std::size_t(machine)]->has_news = true;
}

int SimulatedWorld::connect(int machine, const SocketAddress& to) {
  if (to.storage.ss_family != AF_INET) return -EAFNOSUPPORT;
  const int peer_machine = machine_of(to);
  if (peer_machine < 0 || peer_machine >= std::ssize(processes_)) return -ENETUNREACH;
  const int handle = next_handle_++;
  const auto end = std::make_shared<End>();
  end->machine = machine;
  end->peer_machine = peer_machine;
  end->local = address_of(machine, next_port_++);
  end->remote = to;
  ends_[handle] = end;
  deliver(machine, peer_machine, now_ + draw_delay(), [this, handle, peer_machine, to, end] {
    if (end->is_closed) return;
    const auto found = std::ranges::find_if(listening_, [&](const auto& each) {
      return each.second.machine == peer_machine && port_of(each.second.address) == port_of(to);
    });
    if (found == listening_.end()) {
      end->error = ECONNREFUSED;
      return;
    }
    const int accepted = next_handle_++;
    const auto other = std::make_shared<End>();
    other->machine = peer_machine;
    other->peer_machine = end->machine;
    other->local = to;
    other->remote = end->local;
    other->peer = handle;
    other->is_connected = true;
    ends_[accepted] = other;
    end->peer = accepted;
    end->is_connected = true;
    found->second.waiting.push_back(accepted);
  });
  return handle;
}

ssize_t SimulatedWorld::send(int machine, int handle, std::span<const iovec> parts) {
  if (is_dead_[std::size_t(machine)]) return -EPIPE;
  End& end = *ends_.at(handle);
  if (end.error != 0) return -ECONNRESET;
  if (!end.is_connected) return -EAGAIN;
  const auto found = ends_.find(end.peer);
  if (found == ends_.end()) return -EPIPE;
  const std::shared_ptr<End> peer = found->second;
  std::size_t total = 0;
  for (const iovec& part : parts) total += part.iov_len;
  const std::size_t taken = peer->under_way + peer->arrived.size();
  std::size_t most = std::min(total, buffer_bytes - std::min(buffer_bytes, taken));
  if (most == 0) return -EAGAIN;
  if (draw_chance(25)) most = std::size_t(draw(1, std::int64_t(most)));
  std::vector<std::byte> bytes;
  for (const iovec& part : parts) {
    const auto* const begin = static_cast<const std::byte*>(part.iov_base);
    bytes.insert(bytes.end(), begin, begin + std::min(part.iov_len, most - bytes.size()));
  }
  if (machine < flips_among_ && end.peer_machine < flips_among_ && draw_chance(30)) {
    bytes[std::size_t(draw(0, std::ssize(bytes) - 1))] ^= std::byte(1 << draw(0, 7));
    flips_among_ = 0;
    tell_flip_(machine, end.peer_machine);
  }
  peer->under_way += bytes.size();
  peer->last_delivery = std::max(peer->last_delivery, now_ + draw_delay());
  const int to = end.peer;
  deliver(machine, end.peer_machine, peer->last_delivery,
          [this, handle, to, peer, generation = peer->generation, bytes = std::move(bytes)] {
            if (generation != peer->generation) return;
            peer->under_way -= bytes.size();
            if (peer->error != 0) return;
            if (peer->is_closed) return reset(handle, now_ + draw_delay());
            peer->arrived.insert(peer->arrived.end(), bytes.begin(), bytes.end());
          });
  return static_cast<ssize_t>(most);
}

ssize_t SimulatedWorld::receive(int machine, int handle, std::span<const iovec> parts, bool stays) {
  if (is_dead_[std::size_t(machine)]) return -ECONNRESET;
  End& end = *ends_.at(handle);
  if (end.arrived.empty()) {
    if (end.error != 0) return -ECONNRESET;
    return end.has_ended ? 0 : -EAGAIN;
  }
  std::size_t most = end.arrived.size();
  if (draw_chance(25)) most = std::size_t(draw(1, std::int64_t(most)));
  std::size_t moved = 0;
  for (const iovec& part : parts) {
    const std::size_t length = std::min(part.iov_len, most - moved);
    const auto from = end.arrived.begin() + static_cast<std::ptrdiff_t>(moved);
    std::copy_n(from, length, static_cast<std::byte*>(part.iov_base));
    moved += length;
  }
  if (!stays) {
    end.arrived.erase(end.arrived.begin(),
                      end.arrived.begin() + static_cast<std::ptrdiff_t>(moved));
    tell_of_news(end.peer_machine);  // there is room for more
  }
  return static_cast<ssize_t>(moved);
}

/// The end hears that its connection is broken, behind what has been sent to it.
void SimulatedWorld::reset(int handle, Deadline time) {
  const auto found = ends_.find(handle);
  if (found == ends_.end()) return;
  const std::shared_ptr<End> end = found->second;
  end->last_delivery = std::max(end->last_delivery, time);
  at(end->last_delivery, [this, end] {
    if (is_silent(end->peer_machine, end->machine)) return;
    end->error = ECONNRESET;
    tell_of_news(end->machine);
  });
}

void SimulatedWorld::close(int machine, int handle) {
  if (alarms_.erase(handle) > 0) return;
  if (const auto listening = listening_.find(handle); listening != listening_.end()) {
    const std::deque<int> waiting = listening->second.waiting;
    listening_.erase(listening);
    for (const int each : waiting) close(machine, each);
    return;
  }
  const auto found = ends_.find(handle);
  if (found == ends_.end()) return;
  const std::shared_ptr<End> end = found->second;
  // Nobody hears of what a machine does that is off.
  if (is_off_[std::size_t(machine)]) return;
  end->is_closed = true;
  ends_.erase(found);
  tell_of_news(end->peer_machine);
  const auto of_peer = ends_.find(end->peer);
  if (of_peer == ends_.end()) return;
  const std::shared_ptr<End> peer = of_peer->second;
  if (!end->arrived.empty()) {
    // As the system does where something has come that nobody reads: what is still to be sent goes.
    if (draw_chance(50)) {
      ++peer->generation;
      peer->under_way = 0;
    }
    reset(end->peer, now_ + draw_delay());
    return;
  }
  peer->last_delivery = std::max(peer->last_delivery, now_ + draw_delay());
  deliver(end->machine, peer->machine, peer->last_delivery, [peer] { peer->has_ended = true; });
}

void SimulatedWorld::end_connections(int machine) {
  std::vector<int> handles;
  for (const auto& [handle, listening] : listening_)
    if (listening.machine == machine) handles.push_back(handle);
  for (const auto& [handle, end] : ends_)
    if (end->machine == machine) handles.push_back(handle);
  for (const int handle : handles) {
    // What is destroyed when the stack is left closes its handles again, and asks for addresses.
    const auto end = ends_.find(handle);
    const std::shared_ptr<End> kept = end != ends_.end() ? end->second : nullptr;
    close(machine, handle);
    if (!kept) continue;
    const auto broken = std::make_shared<End>();
    broken->machine = machine;
    broken->error = ECONNRESET;
    ends_[handle] = broken;
  }
}

void SimulatedWorld::kill(int machine) {
  Process& process = *processes_[std::size_t(machine)];
  if (process.has_ended) return;
  end_connections(machine);
  is_dead_[std::size_t(machine)] = true;
  process.is_killed = true;
}

void SimulatedWorld::power_off(int machine) {
  Process& process = *processes_[std::size_t(machine)];
  if (process.has_ended) return;
  is_off_[std::size_t(machine)] = true;
  is_dead_[std::size_t(machine)] = true;
  process.is_killed = true;
}

void SimulatedWorld::stall(int machine, Duration time) {
  processes_[std::size_t(machine)]->goes_on_at = now_ + time;
}

void SimulatedWorld::partition(int a, int b) {
  partitions_.insert({std::min(a, b), std::max(a, b)});
}

std::vector<int> SimulatedWorld::cut_connection() {
  std::vector<int> handles;
  for (const auto& [handle, end] : ends_)
    if (end->is_connected && end->error == 0 && ends_.contains(end->peer))
      handles.push_back(handle);
  if (handles.empty()) return {};
  const int handle = handles[std::size_t(draw(0, std::ssize(handles) - 1))];
  const End& end = *ends_.at(handle);
  std::vector<int> machines = {end.machine, end.peer_machine};
  reset(end.peer, now_ + draw_delay());
  reset(handle, now_ + draw_delay());
  return machines;
}

void SimulatedWorld::flip_bit(int machines, std::function<void(int, int)> tell) {
  flips_among_ = machines;
  tell_flip_ = std::move(tell);
}

}  // namespace autopar::simulation
