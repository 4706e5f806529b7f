#include "bundle/secret_file.h"

#include <fcntl.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/read_file.h"

namespace autopar::bundle {

namespace {

constexpr std::size_t secret_bytes = 32;
constexpr std::size_t fewest_letters = 16;

std::string draw_secret() {
  std::array<unsigned char, secret_bytes> drawn{};
  if (getrandom(drawn.data(), drawn.size(), 0) != std::ssize(drawn))
    fail("no random numbers for a secret: {}", std::strerror(errno));
  std::string text;
  for (const unsigned char byte : drawn) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

void write_secret(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder / secret_file;
  const std::string text = draw_secret() + "\n";
  const Descriptor file = open_file(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!file) fail("cannot write {}: {}", place.string(), std::strerror(errno));
  write_all(file, std::as_bytes(std::span(text)), place);
  sync_file(file, place);
}

std::string read_secret(const std::filesystem::path& file) {
  const std::string text = read_file(
      file,
      "cannot read the ranks' secret {}: {}; give all ranks the same with AUTOPAR_SECRET or "
      "--secret-file");
  std::string line = text.substr(0, text.find('\n'));
  check_secret(line, file.string());
  return line;
}

void check_secret(const std::string& secret, const std::string& source) {
  if (secret.size() < fewest_letters)
    fail("{} has a secret of {} letters; give one of {} or more", source, secret.size(),
         fewest_letters);
}

}  // namespace autopar::bundle
