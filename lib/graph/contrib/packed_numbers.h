#pragma once

#include <string>

#include "graph/contrib/body_builder.h"

namespace autopar::graph {

/// `to`, of that shape and a byte each, of numbers of `bits` bits in `from`, whose bytes hold 8 /
/// bits of them along the last dimension, the lowest bits first. What is left of the last byte is
/// dropped.
void unpack_numbers(BodyBuilder& body, const std::string& from, const std::string& to,
                    const Shape& shape, std::int64_t bits);

}  // namespace autopar::graph
