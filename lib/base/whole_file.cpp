#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/renaming.h"

namespace autopar {

namespace fs = std::filesystem;

namespace {

constexpr unsigned all_modes = 07777;

/// A device or pipe, opened; what a link leads to counts.
Descriptor open_as_it_is(const fs::path& place) {
  // A pipe that nobody reads is not waited for.
  Descriptor opened = open_file(place, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  if (!opened)
    fail("{} cannot be written: {}", place.string(),
         errno == ENXIO ? "nobody reads it" : std::strerror(errno));
  ::fcntl(opened.number(), F_SETFL, O_WRONLY);
  return opened;
}

PartialFile open_for(const fs::path& place) {
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) return make_partial_file(place, 0666);
  if (S_ISDIR(status.st_mode)) fail("{} cannot be written: it is a folder", place.string());
  if (!S_ISREG(status.st_mode)) return {{}, open_as_it_is(place)};
  PartialFile file = make_partial_file(place, 0600);
  ::fchmod(file.descriptor.number(),
           status.st_mode & all_modes);  // not all file systems have modes
  return file;
}

}  // namespace

WholeFile::WholeFile(fs::path place) : place_(std::move(place)) {
  sweep_partial_files(place_);
  partial_ = open_for(place_);
}

WholeFile::~WholeFile() {
  if (!partial_.path.empty()) remove_all_of(partial_.path);
}

void WholeFile::write(std::span<const std::byte> bytes) {
  write_all(partial_.descriptor, bytes, place_);
}

void WholeFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

bool WholeFile::finish() {
  if (!partial_.path.empty()) sync_file(partial_.descriptor, place_);
  return !partial_.path.empty();
}

void WholeFile::publish() {
  if (!finish()) return;
  if (std::rename(partial_.path.c_str(), place_.c_str()) != 0)
    fail("{} cannot be written: {}", place_.string(), std::strerror(errno));
  partial_.path.clear();
  sync_folder(place_.parent_path());
}

void WholeFile::publish_new() {
  if (!finish()) return;
  if (rename_to_free_name(partial_.path, place_) != Renamed::done)
    fail("{} has appeared while it was to be written; it stays as it is", place_.string());
  partial_.path.clear();
  sync_folder(place_.parent_path());
}

void write_file(const fs::path& place, std::string_view text) {
  WholeFile file(place);
  file.write(text);
  file.publish();
}

}  // namespace autopar
