#include "edited_network.h"

#include <algorithm>

#include "base/file_digest.h"

namespace autopar::fuzz {
namespace {

// Where a reply of rank 0 has its checksums (rendezvous.cpp), and what is behind it.
constexpr std::size_t checksum_of_table = 16;
constexpr std::size_t checksum_of_reply = 24;
constexpr std::size_t reply_bytes = 32;

std::span<const std::byte> as_bytes(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

}  // namespace

EditedNetwork::Stream& EditedNetwork::stream_of(int socket) {
  const auto [place, is_new] = streams_.try_emplace(socket);
  if (is_new) {
    Stream& stream = place->second;
    stream.connection = streams_.size() - 1;
    for (const StreamEdit& edit : edits_) {
      if (edit.connection != stream.connection) continue;
      const std::size_t skipped = edit.kind == StreamEdit::Kind::table ? reply_bytes : 0;
      write(stream, edit.offset + skipped, edit.bytes);
    }
  }
  return place->second;
}

void EditedNetwork::write(Stream& stream, std::size_t offset, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    stream.planned[offset + i] = bytes[i];
    if (offset + i >= stream.sent && offset + i < stream.said.size())
      stream.said[offset + i] = bytes[i];
  }
}

/// Writes the checksums of edits that end in what has been said last.
void EditedNetwork::apply(Stream& stream, std::size_t from) const {
  const auto is_told = [&](std::size_t end) { return end > from && end <= stream.said.size(); };
  for (const StreamEdit& edit : edits_) {
    if (edit.connection != stream.connection) continue;
    const std::span<const std::byte> said = stream.said;
    const std::size_t end = edit.offset + edit.bytes.size();
    if (edit.kind == StreamEdit::Kind::sealed && is_told(end)) {
      write(stream, end, as_bytes(xxh3_of(said.subspan(edit.offset, edit.bytes.size()))));
    } else if (edit.kind == StreamEdit::Kind::table && is_told(edit.offset + reply_bytes)) {
      write(stream, edit.offset + checksum_of_table, as_bytes(xxh3_of(edit.bytes)));
      const auto head = std::span(stream.said).subspan(edit.offset, checksum_of_reply);
      write(stream, edit.offset + checksum_of_reply, as_bytes(xxh3_of(head)));
    }
  }
}

ssize_t EditedNetwork::send(int socket, std::span<const iovec> parts) noexcept {
  Stream& stream = stream_of(socket);
  const std::size_t known = stream.said.size();
  std::size_t place = stream.sent;
  for (const iovec& part : parts) {
    const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
    for (std::size_t i = 0; i < part.iov_len; ++i, ++place) {
      if (place < stream.said.size()) continue;  // it could not be sent before
      const auto planned = stream.planned.find(place);
      stream.said.push_back(planned != stream.planned.end() ? planned->second : bytes[i]);
    }
  }
  apply(stream, known);
  const iovec all{stream.said.data() + stream.sent, place - stream.sent};
  const ssize_t sent = network_.send(socket, {&all, 1});
  if (sent > 0) stream.sent += static_cast<std::size_t>(sent);
  return sent;
}

}  // namespace autopar::fuzz
