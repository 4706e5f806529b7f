#pragma once

#include <bit>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

/// What oneDNN 2 and 3 name otherwise (its guide "Transition from v2.x to v3.x"); kernels know no
/// version. Who describes a primitive does so within_onednn (onednn.h).
namespace autopar::runtime::cpu::onednn {

using dnnl::memory;

/// How a tensor lies: in blocks of `inner_blocks` of the dimensions `inner_dims`, which stand
/// `strides` apart. Where it is not blocked, `rest` alone tells.
struct Layout {
  memory::dims dims;
  memory::dims padded_dims;
  memory::dims padded_offsets;
  memory::dims strides;
  memory::dims inner_blocks;
  memory::dims inner_dims;
  std::string rest;  ///< bytes that tell all else, such as sums that stand behind the tensor
};

#if DNNL_VERSION_MAJOR >= 3

using Pooling = dnnl::pooling_forward;

/// `arguments` are those that both versions have, but for the engine and the attributes.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
  return {engine, arguments..., attributes};
}

/// Input and output have one layout.
template <typename... Arguments>
dnnl::lrn_forward::primitive_desc describe_lrn(const dnnl::engine& engine,
                                               const dnnl::primitive_attr& attributes,
                                               const memory::desc& layout,
                                               const Arguments&... arguments) {
  return {engine,
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::lrn_across_channels,
          layout,
          layout,
          arguments...,
          attributes};
}

/// The factor of a product that is added to what stands behind it.
inline void scale_output(dnnl::post_ops& behind, dnnl::primitive_attr&, float factor) {
  behind.append_eltwise(dnnl::algorithm::eltwise_linear, factor, 0);
}

/// x max(0, min(1, x / 6 + 0.5)).
inline void append_hard_swish(dnnl::post_ops& behind) {
  behind.append_eltwise(dnnl::algorithm::eltwise_hardswish, 1.0F / 6, 0.5F);
}

inline memory::dims dims_of(const memory::desc& layout) { return layout.get_dims(); }
inline memory::data_type type_of(const memory::desc& layout) { return layout.get_data_type(); }

inline Layout layout_of(memory::desc layout) {
  Layout told;
  std::size_t bytes = memory::data_type_size(layout.get_data_type());
  if (layout.get_format_kind() == memory::format_kind::blocked) {
    told = {.dims = layout.get_dims(),
            .padded_dims = layout.get_padded_dims(),
            .padded_offsets = layout.get_padded_offsets(),
            .strides = layout.get_strides(),
            .inner_blocks = layout.get_inner_blks(),
            .inner_dims = layout.get_inner_idxs(),
            .rest = std::to_string(static_cast<int>(layout.get_data_type())) + ' ' +
                    std::to_string(layout.get_submemory_offset())};
    for (const memory::dim extent : told.padded_dims) bytes *= static_cast<std::size_t>(extent);
    if (layout.get_size() == bytes) return told;
  }
  const std::vector<std::uint8_t> blob = layout.get_blob();
  told.rest.append(blob.begin(), blob.end());
  return told;
}

/// One zero point, which a run tells.
inline void take_zero_point(dnnl::primitive_attr& attributes, int argument) {
  attributes.set_zero_points_mask(argument, 0);
}

#else

using Pooling = dnnl::pooling_v2_forward;

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes, engine};
}

template <typename... Arguments>
dnnl::lrn_forward::primitive_desc describe_lrn(const dnnl::engine& engine,
                                               const dnnl::primitive_attr& attributes,
                                               const memory::desc& layout,
                                               const Arguments&... arguments) {
  return describe<dnnl::lrn_forward>(engine, attributes, dnnl::prop_kind::forward_inference,
                                     dnnl::algorithm::lrn_across_channels, layout, arguments...);
}

inline void scale_output(dnnl::post_ops&, dnnl::primitive_attr& attributes, float factor) {
  attributes.set_output_scales(0, {factor});
}

inline void append_hard_swish(dnnl::post_ops& behind) {
  behind.append_eltwise(1, dnnl::algorithm::eltwise_hardswish, 0, 0);
}

inline memory::dims dims_of(const memory::desc& layout) { return layout.dims(); }
inline memory::data_type type_of(const memory::desc& layout) { return layout.data_type(); }

inline Layout layout_of(const memory::desc& layout) {
  const dnnl_memory_desc_t& data = layout.data;
  if (data.format_kind != dnnl_blocked) {
    const auto* bytes = reinterpret_cast<const char*>(&data);
    Layout told;
    told.rest.assign(bytes, bytes + sizeof data);
    return told;
  }
  const auto listed = [&](const auto& list, int count) { return memory::dims(list, list + count); };
  const dnnl_blocking_desc_t& blocks = data.format_desc.blocking;
  Layout told{.dims = listed(data.dims, data.ndims),
              .padded_dims = listed(data.padded_dims, data.ndims),
              .padded_offsets = listed(data.padded_offsets, data.ndims),
              .strides = listed(blocks.strides, data.ndims),
              .inner_blocks = listed(blocks.inner_blks, blocks.inner_nblks),
              .inner_dims = listed(blocks.inner_idxs, blocks.inner_nblks),
              .rest = ""};
  for (const std::int64_t number :
       {std::int64_t{data.data_type}, std::int64_t{data.offset0},
        static_cast<std::int64_t>(data.extra.flags), std::int64_t{data.extra.compensation_mask},
        std::int64_t{std::bit_cast<std::int32_t>(data.extra.scale_adjust)}})
    told.rest += std::to_string(number) + ' ';
  return told;
}

inline void take_zero_point(dnnl::primitive_attr& attributes, int argument) {
  attributes.set_zero_points(argument, 0, {DNNL_RUNTIME_S32_VAL});
}

#endif

/// The same tensor in the layout that oneDNN chooses.
inline memory::desc any_layout(const memory::desc& plain) {
  return {dims_of(plain), type_of(plain), memory::format_tag::any};
}

}  // namespace autopar::runtime::cpu::onednn
