#include "runtime/comm/reception.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace autopar::runtime {

namespace {

enum class Said { too_little, hello, nonsense };

/// What the bytes that have come so far are: those of another version may differ behind the
/// signature.
Said what_is_said(const Hello& hello, std::size_t received) {
  const auto& magic = hello.signature.magic;
  const auto of_magic = static_cast<std::ptrdiff_t>(std::min(received, magic.size()));
  const Signature ours;
  if (!std::equal(magic.begin(), magic.begin() + of_magic, ours.magic.begin())) {
    return Said::nonsense;
  }
  const bool is_other_version = received >= sizeof hello.signature && hello.signature != ours;
  return received == sizeof hello || is_other_version ? Said::hello : Said::too_little;
}

}  // namespace

std::optional<Guest> Reception::next(Deadline deadline) {
  do {
    open_door();
    if (auto guest = take_guest()) return guest;
  } while (wait_for_somebody(deadline));
  return std::nullopt;
}

void Reception::open_door() {
  for (Socket socket = accept_from(listener_); socket.is_open(); socket = accept_from(listener_)) {
    std::string address = to_string(peer_address(socket));
    entering_.push_back({{std::move(socket), {}, std::move(address)}, 0});
  }
}

std::optional<Guest> Reception::take_guest() {
  for (auto entering = entering_.begin(); entering != entering_.end();) {
    Guest& guest = entering->guest;
    const auto rest = writable_bytes_of(guest.hello).subspan(entering->received);
    const ssize_t received = recv(guest.socket.descriptor(), rest.data(), rest.size(), 0);
    const bool has_gone = received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
    if (received > 0) entering->received += static_cast<std::size_t>(received);
    const Said said = has_gone ? Said::nonsense : what_is_said(guest.hello, entering->received);
    if (said == Said::too_little) {
      ++entering;
      continue;
    }
    Guest taken = std::move(guest);
    entering = entering_.erase(entering);
    if (said == Said::hello) return taken;
    stranger_ = taken.address;
  }
  return std::nullopt;
}

/// False at the deadline.
bool Reception::wait_for_somebody(Deadline deadline) const {
  std::vector<pollfd> waiting = {{listener_.descriptor(), POLLIN, 0}};
  for (const Entering& entering : entering_) {
    waiting.push_back({entering.guest.socket.descriptor(), POLLIN, 0});
  }
  poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace autopar::runtime
