#include "base/file_digest.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/digesting_file.h"
#include "base/error.h"

namespace autopar {

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
