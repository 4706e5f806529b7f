#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace autopar::runtime {

/// Random bytes that are used once, so that nobody can repeat what was said before.
using Nonce = std::array<std::byte, 32>;
/// HMAC-SHA256.
using Proof = std::array<std::byte, 32>;

Nonce draw_nonce();

/// What all ranks of a world know, and nobody else.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string letters) : letters_(std::move(letters)) {}

  /// That who made it knows the secret, and has seen `parts`; `role` keeps proofs of one side from
  /// being taken for the other's.
  Proof prove(std::string_view role, std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  std::string letters_;
};

/// In a time that tells nothing of where they differ.
bool is_same(const Proof& a, const Proof& b);

}  // namespace autopar::runtime
