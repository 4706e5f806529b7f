#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"

struct XXH3_state_s;

namespace autopar {

/// XXH3-64 of bytes that come in pieces.
class Xxh3Stream {
 public:
  Xxh3Stream();
  void add(std::span<const std::byte> bytes);
  /// 16 hex digits of what was added so far.
  std::string digest() const;
  std::uint64_t value() const;  ///< the same as a number

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::uint64_t xxh3_of(std::span<const std::byte> bytes);

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string xxh3;  ///< XXH3-64 in 16 hex digits
};

/// A new file being written from front to end, with its digest: small writes are gathered in a
/// buffer of 1 MiB, large ones pass it by. Every failure is an Error that names the file. It stands
/// in a folder that is published later (staged_folder.h): a file alone is a WholeFile.
class DigestingFile {
 public:
  /// Throws Error where something has that path.
  explicit DigestingFile(std::filesystem::path path);
  DigestingFile(const DigestingFile&) = delete;
  DigestingFile& operator=(const DigestingFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Writes zeros up to the next multiple of `alignment`.
  void pad_to(std::uint64_t alignment);
  std::uint64_t position() const { return position_; }
  /// Writes what is buffered, waits until the file is on its disk, and closes; nothing may be
  /// written afterwards.
  WrittenFile close();

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
  Xxh3Stream digest_;
};

/// XXH3-64 of a file's bytes in 16 hex digits. Throws Error where it cannot be read.
std::string xxh3_of_file(const std::filesystem::path& file);

}  // namespace autopar
