#pragma once

#include <nlohmann/json.hpp>
#include <random>

namespace autopar::fuzz {

/// Appends an edit of a JSON document to a JSON patch (RFC 6902): a value becomes another one, or
/// one that stands elsewhere, everywhere or there alone; fields and items go, come twice or change
/// places.
void add_edit(nlohmann::json& patch, const nlohmann::json& document, std::mt19937& random);

}  // namespace autopar::fuzz
