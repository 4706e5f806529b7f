#pragma once

/// What becomes of files that are truncated or written while they are mapped (mapped_file.h): reads
/// of what is gone give zeros (bus_guard.h), so that whoever has computed with mapped files asks
/// here before the results leave his hands.
namespace autopar {

/// Throws Error, naming the file, where a file that is mapped lacks bytes that were read; or did,
/// before it was unmapped, and nobody has been told so. Costs next to nothing where none does.
void check_mapped_files();

/// The same, and throws Error where a file that is mapped was written since: what was made of it
/// may be of two files.
void check_mapped_files_unchanged();

}  // namespace autopar
