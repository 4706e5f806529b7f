#include "runtime/comm/notice.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_digest.h"
#include "runtime/comm/handshake.h"

namespace autopar::runtime {

NoticeReader::Heard NoticeReader::read(const Socket& socket, Notice& notice) {
  const std::span<std::byte> place = writable_bytes_of(incoming_);
  while (received_ < place.size()) {
    const iovec rest{place.data() + received_, place.size() - received_};
    const ssize_t received = socket.receive({&rest, 1});
    if (received == -EAGAIN) return Heard::nothing_yet;
    if (received <= 0) return Heard::end;
    received_ += static_cast<std::size_t>(received);
  }
  received_ = 0;
  notice = incoming_.notice;
  return incoming_.checksum == xxh3_of(bytes_of(notice)) ? Heard::notice : Heard::damaged;
}

void NoticeWriter::write(const Socket& socket, const Notice& notice) noexcept {
  const NoticeReader::Sealed sealed{.notice = notice, .checksum = xxh3_of(bytes_of(notice))};
  flush(socket);
  // Where a peer has not read so many, one more changes nothing.
  if (length_ + sizeof sealed > unsent_.size()) return;
  std::memcpy(unsent_.data() + length_, &sealed, sizeof sealed);
  length_ += sizeof sealed;
  flush(socket);
}

void NoticeWriter::flush(const Socket& socket) noexcept {
  while (length_ > 0) {
    const iovec all{unsent_.data(), length_};
    const ssize_t sent = socket.send({&all, 1});
    if (sent <= 0) return;
    length_ -= static_cast<std::size_t>(sent);
    std::memmove(unsent_.data(), unsent_.data() + sent, length_);
  }
}

}  // namespace autopar::runtime
