#include "runtime/comm/tls_network.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace autopar::runtime {

namespace {

constexpr std::size_t largest_record = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::array<unsigned char, 2> aes_128_gcm_sha256 = {0x13, 0x01};
constexpr std::array<unsigned char, 7> identity = {'a', 'u', 't', 'o', 'p', 'a', 'r'};

struct Free {
  void operator()(SSL* tls) const { SSL_free(tls); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

/// What OpenSSL reads its records from and writes them to.
struct Lower {
  Network& network;
  int socket;
};

ssize_t result_of(BIO* bio, ssize_t moved, int retry) {
  BIO_clear_retry_flags(bio);
  if (moved == -EAGAIN) BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return moved < 0 ? -1 : moved;
}

int write_lower(BIO* bio, const char* bytes, int length) {
  const auto& lower = *static_cast<Lower*>(BIO_get_data(bio));
  const iovec part{const_cast<char*>(bytes), static_cast<std::size_t>(length)};
  const ssize_t sent = lower.network.send(lower.socket, {&part, 1});
  return static_cast<int>(result_of(bio, sent, BIO_FLAGS_WRITE));
}

int read_lower(BIO* bio, char* bytes, int length) {
  const auto& lower = *static_cast<Lower*>(BIO_get_data(bio));
  const iovec part{bytes, static_cast<std::size_t>(length)};
  const ssize_t received = lower.network.receive(lower.socket, {&part, 1});
  return static_cast<int>(result_of(bio, received, BIO_FLAGS_READ));
}

long control_lower(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

Owned<BIO_METHOD> method_of_lower() {
  Owned<BIO_METHOD> method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a network"));
  if (!method) return nullptr;
  BIO_meth_set_write(method.get(), write_lower);
  BIO_meth_set_read(method.get(), read_lower);
  BIO_meth_set_ctrl(method.get(), control_lower);
  return method;
}

/// The caller owns it; null where OpenSSL has no memory.
SSL_SESSION* session_of(SSL* tls) {
  const auto& key = *static_cast<const Key*>(SSL_get_app_data(tls));
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(tls, aes_128_gcm_sha256.data());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, bytes, key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int use_key(SSL* tls, const EVP_MD*, const unsigned char** id, std::size_t* length,
            SSL_SESSION** session) {
  *session = session_of(tls);
  *id = identity.data();
  *length = identity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* tls, const unsigned char*, std::size_t, SSL_SESSION** session) {
  *session = session_of(tls);
  return *session != nullptr ? 1 : 0;
}

}  // namespace

/// What all connections have in common.
class TlsNetwork::Context {
 public:
  Context() : lower_(method_of_lower()), context_(SSL_CTX_new(TLS_method())) {
    require(lower_ && context_ &&
                SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION) == 1 &&
                SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256") == 1,
            "OpenSSL has TLS 1.3 with AES-128-GCM");
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context_.get(), 0);
    SSL_CTX_set_psk_use_session_callback(context_.get(), use_key);
    SSL_CTX_set_psk_find_session_callback(context_.get(), find_key);
  }

  Owned<SSL> make(Lower& lower) const {
    Owned<SSL> tls(SSL_new(context_.get()));
    BIO* const bio = tls ? BIO_new(lower_.get()) : nullptr;
    if (bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, &lower);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls.get(), bio, bio);
    return tls;
  }

 private:
  Owned<BIO_METHOD> lower_;
  Owned<SSL_CTX> context_;
};

/// One connection's TLS. Threads may use it at the same time.
class TlsNetwork::Connection {
 public:
  Connection(const Context& context, Network& below, int socket, Side side, const Key& key,
             std::int64_t records_a_key)
      : lower_{below, socket},
        key_(key),
        records_a_key_(records_a_key),
        tls_(context.make(lower_)) {
    SSL_set_app_data(tls_.get(), &key_);
    if (side == Side::listens) {
      SSL_set_accept_state(tls_.get());
    } else {
      SSL_set_connect_state(tls_.get());
      // Who has no key cannot offer a certificate instead: none is trusted.
      SSL_set_verify(tls_.get(), SSL_VERIFY_PEER, nullptr);
    }
  }

  ssize_t send(std::span<const iovec> parts) {
    const std::lock_guard lock(using_);
    std::size_t total = 0;
    for (const iovec& part : parts) total += part.iov_len;
    std::size_t sent = 0;
    while (sent < total) {
      if (record_.empty()) fill_record(parts, sent);
      ERR_clear_error();
      std::size_t written = 0;
      const int result = SSL_write_ex(tls_.get(), record_.data(), record_.size(), &written);
      if (result != 1) return sent > 0 ? static_cast<ssize_t>(sent) : error_of(result);
      record_.clear();
      sent += written;
      if (++records_ % records_a_key_ == 0)
        SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    return static_cast<ssize_t>(sent);
  }

  ssize_t receive(std::span<const iovec> parts) {
    const std::lock_guard lock(using_);
    std::size_t received = 0;
    for (const iovec& part : parts) {
      for (std::size_t filled = 0; filled < part.iov_len;) {
        const ssize_t read = read_by(SSL_read_ex, static_cast<std::byte*>(part.iov_base) + filled,
                                     part.iov_len - filled);
        if (read <= 0) return received > 0 ? static_cast<ssize_t>(received) : read;
        filled += static_cast<std::size_t>(read);
        received += static_cast<std::size_t>(read);
      }
    }
    return static_cast<ssize_t>(received);
  }

  ssize_t peek(std::span<std::byte> bytes) {
    const std::lock_guard lock(using_);
    return read_by(SSL_peek_ex, bytes.data(), bytes.size());
  }

  /// Whether bytes can be received that have come from the network already.
  bool has_pending() {
    const std::lock_guard lock(using_);
    return SSL_pending(tls_.get()) > 0;
  }
  /// While both ends agree on keys, whoever wants to send may have to wait for the other's word.
  bool waits_for_peer() {
    const std::lock_guard lock(using_);
    return SSL_is_init_finished(tls_.get()) == 0 && SSL_want_read(tls_.get());
  }

 private:
  template <typename Read>
  ssize_t read_by(const Read& read_ex, std::byte* place, std::size_t most) {
    ERR_clear_error();
    std::size_t read = 0;
    const int result = read_ex(tls_.get(), place, most, &read);
    return result == 1 ? static_cast<ssize_t>(read) : error_of(result);
  }

  /// The next record: what of `parts` lies behind `begin` bytes, up to a record's length.
  void fill_record(std::span<const iovec> parts, std::size_t begin) {
    for (const iovec& part : parts) {
      const std::size_t skipped = std::min(begin, part.iov_len);
      begin -= skipped;
      const std::size_t length = std::min(part.iov_len - skipped, largest_record - record_.size());
      const auto* const from = static_cast<const std::byte*>(part.iov_base) + skipped;
      record_.insert(record_.end(), from, from + length);
    }
  }

  /// As Network's calls tell it.
  ssize_t error_of(int result) const {
    switch (SSL_get_error(tls_.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      default:
        break;
    }
    const unsigned long error = ERR_peek_error();
    ERR_clear_error();
    if (error == 0) return -ECONNRESET;
    // Messages have lengths and checksums of their own, so that an early end is seen there.
    return ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? 0 : -EPROTO;
  }

  std::mutex using_;
  Lower lower_;
  Key key_;
  std::int64_t records_a_key_;
  Owned<SSL> tls_;
  std::vector<std::byte> record_;  ///< encrypted, but not sent yet as a whole
  std::int64_t records_ = 0;       ///< sent
};

TlsNetwork::TlsNetwork(Network& below, std::int64_t records_a_key)
    : below_(below), records_a_key_(records_a_key), context_(std::make_unique<Context>()) {}
TlsNetwork::~TlsNetwork() = default;

std::shared_ptr<TlsNetwork::Connection> TlsNetwork::find(int socket) const noexcept {
  const std::shared_lock lock(opening_);
  const auto found = connections_.find(socket);
  return found != connections_.end() ? found->second : nullptr;
}

void TlsNetwork::encrypt(int socket, Side side, const Key& key) {
  auto made = std::make_shared<Connection>(*context_, below_, socket, side, key, records_a_key_);
  const std::unique_lock lock(opening_);
  connections_[socket] = std::move(made);
}

ssize_t TlsNetwork::send(int socket, std::span<const iovec> parts) noexcept {
  const auto connection = find(socket);
  if (!connection) return below_.send(socket, parts);
  try {
    return connection->send(parts);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

ssize_t TlsNetwork::receive(int socket, std::span<const iovec> parts) {
  const auto connection = find(socket);
  return connection ? connection->receive(parts) : below_.receive(socket, parts);
}

ssize_t TlsNetwork::peek(int socket, std::span<std::byte> bytes) {
  const auto connection = find(socket);
  return connection ? connection->peek(bytes) : below_.peek(socket, bytes);
}

void TlsNetwork::close(int handle) noexcept {
  {
    const std::unique_lock lock(opening_);
    connections_.erase(handle);
  }
  below_.close(handle);
}

int TlsNetwork::poll(std::span<pollfd> handles, Deadline deadline) {
  std::vector<pollfd> lower(handles.begin(), handles.end());
  for (pollfd& each : lower) {
    const auto connection = find(each.fd);
    if (!connection) continue;
    if ((each.events & POLLIN) != 0 && connection->has_pending()) deadline = below_.now();
    if (connection->waits_for_peer()) each.events = POLLIN;
  }
  below_.poll(lower, deadline);
  int ready = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    pollfd& each = handles[i];
    each.revents = lower[i].revents;
    if (lower[i].events != each.events && (each.revents & POLLIN) != 0) each.revents |= each.events;
    const auto connection = find(each.fd);
    if (connection && (each.events & POLLIN) != 0 && connection->has_pending())
      each.revents |= POLLIN;
    if (each.revents != 0) ++ready;
  }
  return ready;
}

Network& tls_network() {
  static TlsNetwork network(system_network());
  return network;
}

}  // namespace autopar::runtime
