#include "base/file_digest.h"

#include <fcntl.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include "base/error.h"
#include "base/interruption.h"
#include "base/progress.h"
#include "base/work_signs.h"

namespace autopar {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Xxh3Stream::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Xxh3Stream::digest() const { return fmt::format("{:016x}", value()); }
std::uint64_t Xxh3Stream::value() const { return XXH3_64bits_digest(state_.get()); }

std::uint64_t xxh3_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

DigestingFile::DigestingFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(open_file(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644)) {
  if (!file_) fail("cannot write {}: {}", path_.string(), std::strerror(errno));
  buffer_.reserve(buffer_bytes);
}

void DigestingFile::write(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) return write_through(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void DigestingFile::pad_to(std::uint64_t alignment) {
  const std::vector<std::byte> zeros((alignment - position_ % alignment) % alignment);
  write(zeros);
}

WrittenFile DigestingFile::close() {
  flush();
  sync_file(file_, path_);
  if (const int error = file_.close(); error != 0)
    fail("cannot write {}: {}", path_.string(), std::strerror(error));
  return {position_, digest_.digest()};
}

void DigestingFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void DigestingFile::write_through(std::span<const std::byte> bytes) {
  check_interruption();
  note_work();
  digest_.add(bytes);
  write_all(file_, bytes, path_);
  note_done(std::ssize(bytes));
}

std::string xxh3_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file))
    fail("cannot read {}: {}", file.string(), std::strerror(in ? EISDIR : errno));
  Xxh3Stream stream;
  std::vector<char> buffer(buffer_bytes);
  while (in) {
    note_work();
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    stream.add(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(in.gcount()))));
  }
  if (in.bad()) fail("cannot read {}: {}", file.string(), std::strerror(errno));
  return stream.digest();
}

}  // namespace autopar
