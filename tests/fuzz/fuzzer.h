#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

/// What a fuzzer has: one function that takes any bytes. libFuzzer calls it (libfuzzer_main.cpp),
/// and tests call it with the files of the fuzzer's corpus (replay_main.cpp).
namespace autopar::fuzz {

using Bytes = std::span<const std::byte>;

/// Defined by each fuzzer: reads the bytes as what the fuzzer is called after, and goes on with
/// what they say as a program would. May throw Error, since bytes may be wrong. Any other exception
/// is a finding, as are signals, what sanitizers report, and limits of time and memory.
void try_input(Bytes input);

/// Calls try_input and takes an Error for an answer: whether there was none. Other exceptions go
/// on.
bool accepts(Bytes input);

/// Takes the step and swallows an Error: for fuzzers that read the same bytes in several ways.
void allow_error(const std::function<void()>& step);

/// Writes the bytes into a file in memory, the same one each time, and returns its path, where it
/// can be opened until the next call.
std::filesystem::path file_of(Bytes input);

}  // namespace autopar::fuzz
