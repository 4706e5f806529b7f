#pragma once

namespace autopar::graph {

/// Protobuf writes to standard error what it finds in damaged messages. From here on it is silent:
/// what is wrong is told by the Error of who reads the message. To be called before one is parsed.
void keep_protobuf_silent();

}  // namespace autopar::graph
