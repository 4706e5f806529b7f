#include "device_choice.h"

#include "base/problems.h"
#include "base/usable_cores.h"
#include "input_options.h"

namespace autopar {

namespace {

runtime::DeviceOptions::Kind kind_of(const std::string& device) {
  using Kind = runtime::DeviceOptions::Kind;
  if (device == "auto") return Kind::automatic;
  if (device == "cpu") return Kind::cpu;
  if (device == "cuda") return Kind::cuda;
  fail("--device {}: runs are on cpu, cuda or auto", device);
}

}  // namespace

void DeviceChoice::add_to(CLI::App& command) {
  command
      .add_option("--device", device,
                  "cpu, cuda, or auto: a GPU for every rank where there are as many, else the CPU")
      ->capture_default_str();
  command.add_option("--gpu", gpu, "The GPU of this process's rank (default: by local rank)");
  command
      .add_option("--collectives", collectives,
                  "Of GPUs: nccl, or host, through its memory, so that ranks may share a GPU")
      ->capture_default_str();
  command.add_flag("--allow-tf32", allow_tf32,
                   "Let GPUs round the factors of float32 products to TF32");
  command.add_option("--threads", threads,
                     "Threads a rank (default: cores that may be used, over local ranks)");
  command.add_option("--cpus", cpus, "The cores that this process may use: 0-3,8 (default: all)");
}

runtime::DeviceOptions DeviceChoice::checked() const {
  runtime::DeviceOptions options{.threads = threads,
                                 .gpu = gpu,
                                 .allow_tf32 = allow_tf32,
                                 .host_collectives = collectives == "host"};
  Problems problems;
  problems.collect([&] { check_threads(threads); });
  problems.collect([&] {
    if (!cpus.empty()) bind_thread(parse_cores("--cpus", cpus));
  });
  problems.collect([&] { options.kind = kind_of(device); });
  if (collectives != "nccl" && collectives != "host")
    problems.add("--collectives {}: give nccl or host", collectives);
  if (gpu && device != "cuda") problems.add("--gpu {}: give --device cuda too", *gpu);
  if (gpu && *gpu < 0) problems.add("--gpu {}: GPUs are numbered from 0", *gpu);
  problems.throw_if_any();
  return options;
}

}  // namespace autopar
