#pragma once

/// Catch2 3 under the names of version 2, which the tests use, where version 3 is installed
/// (third_party/dependencies.cmake).

#include <catch2/catch_all.hpp>
#include <string>

namespace Catch {

namespace Matchers {

// Each as exact as version 3's template, which looks for elements of ranges.
inline StringContainsMatcher Contains(const std::string& text) { return ContainsSubstring(text); }
inline StringContainsMatcher Contains(std::string& text) { return ContainsSubstring(text); }
inline StringContainsMatcher Contains(std::string&& text) { return ContainsSubstring(text); }
inline StringContainsMatcher Contains(const char* text) { return ContainsSubstring(text); }

}  // namespace Matchers

using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::StartsWith;
using Matchers::WithinRel;

}  // namespace Catch

using Catch::Approx;
