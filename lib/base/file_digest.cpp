#include "base/file_digest.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/xxh3_stream.h"

namespace autopar {

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3Stream::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Xxh3Stream::digest() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_.get()));
}

std::string xxh3_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file))
    fail("cannot read {}: {}", file.string(), std::strerror(in ? EISDIR : errno));
  Xxh3Stream stream;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    stream.add(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(in.gcount()))));
  }
  if (in.bad()) fail("cannot read {}: {}", file.string(), std::strerror(errno));
  return stream.digest();
}

}  // namespace autopar
