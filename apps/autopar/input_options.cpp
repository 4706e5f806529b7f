#include "input_options.h"

#include <utility>

#include "base/problems.h"
#include "planner/load_model.h"
#include "runtime/step_loop.h"
#include "runtime/tensor_files.h"

namespace autopar {

void InputOptions::add_to(CLI::App& command) {
  command
      .add_option("--input", files, "A model input, NAME=FILE.npy or NAME=FILE.pb; may be repeated")
      ->allow_extra_args(false);  // one each, or it would swallow a positional
  command.add_option("--random-inputs", random_seed,
                     "Random values from this seed for inputs that no file gives");
}

runtime::NamedTensors InputOptions::load(const bundle::MetaInfo& info,
                                         const runtime::LoopOptions& loop) const {
  runtime::NamedTensors inputs;
  std::vector<std::string> unread;
  Problems problems;
  for (const std::string& text : files) {
    problems.collect([&] {
      try {
        auto [name, tensor] = planner::load_named_tensor("--input", text);
        if (!inputs.emplace(name, std::move(tensor)).second) {
          fail("--input gives '{}' twice; give it once", name);
        }
      } catch (const Error&) {
        unread.push_back(text.substr(0, text.find('=')));
        throw;
      }
    });
  }
  if (random_seed) {
    std::uint64_t seed = *random_seed;
    for (const bundle::PortInfo& port : info.profiles.front().inputs) {
      ++seed;
      if (!inputs.contains(port.name)) {
        inputs.emplace(port.name, runtime::random_tensor(port.type, port.shape, seed));
      }
    }
  }
  const bool may_differ = !info.structure.empty() || info.profiles.size() > 1;
  const runtime::InputCheck check{
      .unread = unread,
      .extents = may_differ ? runtime::Extents::any : runtime::Extents::of_profile,
      .by_options = true};
  problems.collect(
      [&] { runtime::check_inputs(info, info.profiles.front(), inputs, loop, check); });
  problems.throw_if_any();
  return inputs;
}

void add_shape_cache_option(CLI::App& command, std::int64_t& bytes) {
  command
      .add_option("--shape-cache", bytes,
                  "What shapes that stay compiled may take in memory beside the weights")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->default_str("1GiB");
}

void check_threads(int threads) {
  constexpr int most = 1024;
  if (threads < 0 || threads > most)
    fail("--threads {}: give 1 to {}, or 0 for a fair share", threads, most);
}

}  // namespace autopar
