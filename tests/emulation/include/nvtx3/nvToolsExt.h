#pragma once

#include <cstddef>
#include <cstdint>

// Ranges of NVTX; autopar::emulation::nvtx_ranges() tells which were pushed.

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (static_cast<std::uint16_t>(sizeof(nvtxEventAttributes_t)))

enum nvtxColorType_t { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 };
enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1 };

union nvtxMessageValue_t {
  const char* ascii;
};

struct nvtxEventAttributes_t {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t colorType;
  std::uint32_t color;
  std::int32_t payloadType;
  std::int32_t reserved0;
  union {
    std::uint64_t ullValue;
  } payload;
  std::int32_t messageType;
  nvtxMessageValue_t message;
};

/// Both return the depth of the range in its thread, from 0; a pop without a push, -2.
int nvtxRangePushA(const char* message);
int nvtxRangePushEx(const nvtxEventAttributes_t* attributes);
int nvtxRangePop();
void nvtxMarkA(const char* message);
#define nvtxRangePush nvtxRangePushA
#define nvtxMark nvtxMarkA
