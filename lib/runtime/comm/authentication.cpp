#include "runtime/comm/authentication.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

#include "base/error.h"

namespace autopar::runtime {

Nonce draw_nonce() {
  Nonce nonce{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size()) != 1)
    fail("the system gives no random numbers to meet other ranks with");
  return nonce;
}

Proof Secret::prove(std::string_view role,
                    std::initializer_list<std::span<const std::byte>> parts) const {
  std::vector<unsigned char> text(role.begin(), role.end());
  text.push_back(0);
  for (const std::span<const std::byte> part : parts) {
    const auto* const begin = reinterpret_cast<const unsigned char*>(part.data());
    text.insert(text.end(), begin, begin + part.size());
  }
  Proof proof{};
  unsigned int length = proof.size();
  const auto* const made =
      HMAC(EVP_sha256(), letters_.data(), static_cast<int>(letters_.size()), text.data(),
           text.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  require(made != nullptr && length == proof.size(), "OpenSSL has HMAC-SHA256");
  return proof;
}

bool is_same(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace autopar::runtime
