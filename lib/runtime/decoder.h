#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"

/// What a decoder of text reads in a run: which inputs are which, and what they get.
namespace autopar::runtime {

/// A bundle's inputs and outputs as exporters of decoders call them. A name is empty where there is
/// no such input.
struct DecoderPorts {
  /// What becomes of the rows that a run makes for a cache.
  enum class Cache {
    none,      ///< there is no cache: each run reads the whole text
    appended,  ///< the session puts them behind those in a buffer; a mask tells which count
    placed,    ///< the model puts them to their places, or has a state of one size
  };

  bundle::PortInfo ids;            ///< input_ids, [batch, new]
  std::string mask;                ///< attention_mask, [batch, columns]
  std::string positions;           ///< position_ids, [batch, new]
  std::string cache_position;      ///< [new]
  std::string seqlens_k;           ///< of GroupQueryAttention: a row's tokens less 1
  std::string total_length;        ///< total_sequence_length: the longest row's tokens
  bundle::PortInfo logits;         ///< [batch, new or 1, vocabulary], or [batch, vocabulary]
  std::vector<std::string> other;  ///< inputs that are given as they are, the same in each run

  Cache cache = Cache::none;
  std::vector<bundle::PortInfo> inputs;   ///< all that is no state
  std::optional<bundle::PortInfo> state;  ///< an input that is one
  /// Tokens that a row may have, those included that come last and are never read; nullopt: any
  /// number.
  std::optional<std::int64_t> most_tokens;

  std::int64_t batch() const { return ids.shape[0]; }
  /// Tokens of a row that one run reads.
  std::int64_t new_tokens() const { return ids.shape[1]; }
  std::int64_t vocabulary() const { return logits.shape.back(); }
};

/// Finds them by name, type and shape. Throws Error, which says so in one line, where the bundle is
/// no decoder of text, or its masks and positions cannot be made for the shapes that it has.
/// `given` names inputs that the user gives.
DecoderPorts decoder_ports(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
                           const std::vector<std::string>& given);

/// What a run reads of a batch of texts.
struct NewTokens {
  /// By row: as many as a run reads; at most as many where there is no cache, and each row at least
  /// one.
  std::vector<std::vector<std::int64_t>> rows;
  std::int64_t past = 0;  ///< tokens of each row that runs before have read
};

/// The inputs of a run but for states and what the user gives. Rows begin at position 0, so that
/// texts of different lengths need no padding in front; where there is no cache, they are padded
/// behind, where no token looks that comes before.
NamedTensors decoder_inputs(const DecoderPorts& ports, const NewTokens& tokens);

/// The scores for the token behind number `index` of a run's new ones.
std::vector<float> scores_of(const DecoderPorts& ports, const graph::Tensor& logits,
                             std::int64_t row, std::int64_t index);

}  // namespace autopar::runtime
