#include "graph/onnx/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <mutex>

namespace autopar::graph {

void keep_protobuf_silent() {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(nullptr); });
}

}  // namespace autopar::graph
