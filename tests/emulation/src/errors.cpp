#include "cuda_runtime_api.h"
#include "machine.h"

namespace autopar::emulation {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Description {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define AUTOPAR_ERROR(error, text) \
  { error, #error, text }
constexpr Description kDescriptions[] = {
    AUTOPAR_ERROR(cudaSuccess, "no error"),
    AUTOPAR_ERROR(cudaErrorInvalidValue, "invalid argument"),
    AUTOPAR_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    AUTOPAR_ERROR(cudaErrorInitializationError, "initialization error"),
    AUTOPAR_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    AUTOPAR_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    AUTOPAR_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    AUTOPAR_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    AUTOPAR_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    AUTOPAR_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    AUTOPAR_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    AUTOPAR_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    AUTOPAR_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    AUTOPAR_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    AUTOPAR_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    AUTOPAR_ERROR(cudaErrorNotReady, "device not ready"),
    AUTOPAR_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    AUTOPAR_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    AUTOPAR_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    AUTOPAR_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    AUTOPAR_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    AUTOPAR_ERROR(cudaErrorAssert, "device-side assert triggered"),
    AUTOPAR_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                  "part or all of the requested memory range is already mapped"),
    AUTOPAR_ERROR(cudaErrorHostMemoryNotRegistered,
                  "pointer does not correspond to a registered memory region"),
    AUTOPAR_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    AUTOPAR_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    AUTOPAR_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    AUTOPAR_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    AUTOPAR_ERROR(cudaErrorNotSupported, "operation not supported"),
    AUTOPAR_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureMerge,
                  "operation would result in a merge of separate capture sequences"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureUnmatched,
                  "capture was not ended in the same stream as it began"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    AUTOPAR_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing stream"),
    AUTOPAR_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    AUTOPAR_ERROR(cudaErrorTimeout, "wait operation timed out"),
    AUTOPAR_ERROR(cudaErrorGraphExecUpdateFailure,
                  "the graph update was not performed because it included changes which violated "
                  "constraints"),
    AUTOPAR_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef AUTOPAR_ERROR

Description describe(cudaError_t error) {
  for (const Description& description : kDescriptions) {
    if (description.error == error) return description;
  }
  return {error, "unrecognized error code", "unrecognized error code"};
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t lost = device_error(current_device());
  return lost == cudaSuccess ? last_error : lost;
}

const char* cudaGetErrorName(cudaError_t error) { return describe(error).name; }

const char* cudaGetErrorString(cudaError_t error) { return describe(error).text; }
