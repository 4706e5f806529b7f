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
    masked,    ///< the session puts them behind those in a buffer; a mask tells which rows count
    exact,     ///< the same, but a run's cache has no other rows than those that runs have made
    by_text,   ///< the model puts each text's rows behind that text's own
    by_place,  ///< the model puts them to places that all texts have in common
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
  std::vector<bundle::PortInfo> inputs;   ///< all that is no state, in the profile of fewest tokens
  std::optional<bundle::PortInfo> state;  ///< an input that is one, there
  std::int64_t rows = 0;                  ///< of caches, there; without a cache, tokens of a text
  /// Whether a run may read any number of tokens, and whether caches may have any number of rows.
  bool reads_any_number = false;
  bool has_any_rows = false;
  /// Whether a run tells the scores of all tokens that it reads, or those of the last alone.
  bool scores_all = false;

  std::int64_t batch() const { return ids.shape[0]; }
  /// Tokens of a row that one run reads, in the profile of fewest.
  std::int64_t new_tokens() const { return ids.shape[1]; }
  std::int64_t vocabulary() const { return logits.shape.back(); }
  /// Whether texts of different lengths may be read in one run, padded behind.
  bool may_pad() const;
  /// Whether `rows` is no bound.
  bool may_grow() const { return state ? has_any_rows : reads_any_number; }
};

/// Finds them by name, type and shape. Throws Error, which says so in one line, where the bundle is
/// no decoder of text, or its masks and positions cannot be made. `given` names inputs that the
/// user gives.
DecoderPorts decoder_ports(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
                           const std::vector<std::string>& given);

/// What a run reads of a batch of texts.
struct NewTokens {
  /// By row: at least one each. Shorter ones are padded behind, to `columns`.
  std::vector<std::vector<std::int64_t>> rows;
  std::int64_t columns = 1;
  /// By row: tokens that runs before have read.
  std::vector<std::int64_t> read;
  std::int64_t past = 0;  ///< rows that the caches of this run have
  /// Rows of caches that runs before have made, and how many of them the first run did: of those,
  /// text number i has the first `first[i]`, and what is behind is of padding.
  std::int64_t made = 0;
  std::int64_t made_by_first = 0;
  std::vector<std::int64_t> first;
};

/// The inputs of a run but for states and what the user gives. A text begins at position 0.
NamedTensors decoder_inputs(const DecoderPorts& ports, const NewTokens& tokens);

/// The scores for the token behind number `index` of a run's new ones.
std::vector<float> scores_of(const DecoderPorts& ports, const graph::Tensor& logits,
                             std::int64_t row, std::int64_t index);

}  // namespace autopar::runtime
