"""Odd inputs for which ONNX Runtime is no yardstick, and why. Each row is of tests of ONNX or of
operators, and of changes "input_change" as make_odd_tests.py names them, with * for anything."""

from fnmatch import fnmatchcase
from typing import NamedTuple


class Row(NamedTuple):
    tests: str
    changes: str
    reason: str

    def has(self, test, change):
        return any(fnmatchcase(test, pattern) for pattern in self.tests.split()) and any(
            fnmatchcase(change, pattern) for pattern in self.changes.split()
        )


# Where both answer, otherwise.
ANSWERED = (
    Row("attention_*", "2_*inf 2_*1e+30", "keys that a mask hides are not read, so their values times 0 make no NaN"),
    Row("attention_*", "0_*inf 1_*inf 0_*1e+30 1_*1e+30", "a softmax of scores that are all -inf or NaN is NaN"),
    Row("attention_*_fp16*", "2_-1 5_-1", "float16's rounding, where sums nearly vanish"),
    Row("*conv_with_* FusedConv", "0_*inf 0_nan 1_*inf 1_nan",
        "padding is not read, or is: 0 times infinity or NaN"),
    Row("resize_*linear* gridsample_border_padding", "0_*inf",
        "pixels of weight 0 are not read, or are: 0 times infinity"),
    Row("batchnorm_* instancenorm_*", "1_*inf",
        "ONNX Runtime puts scale, mean and bias into one factor and one summand: infinity less infinity"),
    Row("batchnorm_* instancenorm_* group_normalization_* layer_normalization_* lrn* mvn", "0_*1e+30 1_*1e+30",
        "squares are beyond float32, and how the mean is rounded decides"),
    Row("layer_normalization_*", "0_*inf", "the mean of infinities is infinite; NaN appears in the next step"),
    Row("reduce_l2_*", "0_*1e+30", "squares are beyond float32, the norm is not: sums are in float64"),
    Row("Normalizer", "0_*1e+30 0_-9223372036854775808",
        "squares and the lowest integer's magnitude are beyond their type, the norm is not"),
    Row("mvn", "0_0 0_-1", "ONNX adds epsilon to the deviation: 0, where ONNX Runtime has 0 / 0"),
    Row("clip_default_*", "0_*inf 1_inf", "without a bound nothing is cut off, as in ONNX's function and reference"),
    Row("clip*", "1_nan 2_nan", "a bound that is NaN bounds nothing, or makes NaN, as in ONNX's reference"),
    Row("maxpool_* globalmaxpool*", "0_-inf 0_nan",
        "ONNX Runtime starts with the lowest finite number, which then is the largest"),
    Row("argmax_*select_last* argmin_*select_last* hardmax_* top_k*", "0_nan", "no order is defined among NaN"),
    Row("scatter*_max* scatter*_min*", "0_nan", "NaN goes through Min and Max, as in ONNX's reference"),
    Row("gridsample_*", "1_*", "places beyond 64 bits are outside, as in ONNX's reference; ONNX Runtime casts them"),
    Row("resize_tf_crop_and_resize*", "1_*", "places at infinity and NaN are nowhere"),
    Row("resize_tf_crop_and_resize*", "0_short2 0_short3",
        "ONNX Runtime does not scale the region of interest by the image's extents; ONNX's reference does"),
    Row("gru_* lstm_* simple_rnn_* rnn_*", "?_nan ?_*inf ?_*1e+30 3_0 3_-1",
        "ONNX Runtime's sigmoid and tanh are approximated, pass 1, and make numbers of NaN"),
    Row("lstm_* DynamicQuantizeLSTM", "0_none",
        "without a step the state is the initial one; ONNX Runtime leaves other memory there"),
    Row("nllloss_*_expanded reduce_mean_default_axes_*", "?_empty ?_none ?_hollow", "the mean of nothing is 0 / 0"),
    Row("reduce_* argmax_* argmin_*", "?_empty ?_none ?_hollow 1_-1",
        "a reduced dimension has extent 1, also of tensors without elements"),
    Row("nonzero_example", "0_scalar", "a scalar has no dimension: ONNX says 0 x N"),
    Row("squeeze*", "1_empty", "axes that name none remove none, as in ONNX's reference"),
    Row("slice_neg_steps", "2_9223372036854775807", "an end behind the last place leaves nothing backwards"),
    Row("mod_int64_fmod", "0_92233720368547758*", "ONNX Runtime computes it in float64, where these are no integers"),
    Row("pow_types_int*", "0_* 1_*", "powers and casts beyond the integers are undefined"),
    Row("qlinearmatmul_*_float16", "2_-1 5_254", "a tie is rounded to even, as in ONNX's reference"),
    Row("dynamicquantizelinear*", "0_*",
        "the scale of zeros alone is 0 by ONNX's formula; what has no range has no quantisation"),
    # Operators of other domains: ONNX Runtime's source is their definition
    Row("Attention MultiHeadAttention", "3_-* 3_0 4_-*",
        "a mask that hides all keys leaves the rounding of scores near -10,000"),
    Row("GroupQueryAttention", "3_0 3_1 5_0 5_1 6_1", "rows of the cache behind the sequence's end mean nothing"),
    Row("GroupQueryAttention", "6_*1e+30", "cosines that make scores infinite"),
    Row("DynamicQuantizeLSTM", "?_nan ?_*inf",
        "ONNX Runtime's sigmoid and tanh make numbers of NaN, and so do its casts"),
    Row("DynamicQuantizeMatMul MatMulIntegerToFloat", "0_*inf 2_*inf 3_*inf 0_nan",
        "0 times infinity: scale times 0 before the zero point is subtracted, or after it"),
    Row("MatMulIntegerToFloat", "3_deeper", "ONNX Runtime takes it for a scale of each column and reads outside it"),
    Row("MatMulNBits", "3_*inf", "an infinite zero point times activations that are 0"),
    Row("QAttention", "3_* 4_*", "scales beyond float32's squares make scores infinite"),
    Row("QGemm", "1_*inf 4_*inf", "0 times infinity: the products of bytes are summed before they are scaled"),
    Row("QGemm", "6_-2147483648 6_214748364*", "ONNX Runtime's int32 sum overflows"),
    Row("QLinearAdd QLinearMul QLinearAveragePool QLinearSigmoid", "?_0 ?_*1e+30 ?_*inf",
        "scales of 0 and infinity: ONNX Runtime casts what is beyond the bytes, autopar cuts it off"),
    Row("QLinearSoftmax", "1_* 3_0 3_nan", "ONNX Runtime's table of exponentials wants a positive scale"),
    Row("MoE QMoE", "1_*", "which of equal experts is chosen is undefined"),
    Row("MoE", "0_*inf 0_nan 2_*inf 2_nan", "0 times infinity in an expert's product"),
    Row("QMoE", "?_*1e+30 ?_*inf ?_nan ?_0", "infinities and 0 / 0 of experts' shares and of float16"),
    Row("QMoE", "3_-1 5_-1 6_-1 7_-1 8_-1",
        "scales of -1 make sums of thousands, whose float16 differs; shares of -1 sum to 0"),
    Row("Imputer", "0_deeper", "of three dimensions ONNX Runtime takes the second for the features; ONNX does not say"),
    Row("LinearClassifier SVMClassifier OneHotEncoder", "0_*inf 0_nan", "NaN has no order and is no category"),
)

# Where ONNX Runtime answers what autopar refuses.
REFUSED = (
    Row("reduce_* rms_normalization_*_expanded mvn cumsum_* cumprod_*", "0_scalar 0_empty 1_*9223372036854775*",
        "axes that the data has not: ONNX Runtime does not look at them where there is nothing to reduce"),
    Row("argmax_* argmin_*", "0_empty 0_hollow", "there is no place of the largest of nothing"),
    Row("attention_*_expanded", "1_none 1_hollow 4_none 4_hollow 5_none 5_hollow",
        "ONNX Runtime's Concat leaves out operands without elements, whatever their shape"),
    Row("center_crop_pad_*", "1_*", "negative extents, and fewer extents than axes"),
    Row("hannwindow* hammingwindow* blackmanwindow*", "0_0 0_deeper", "a size is a positive scalar in ONNX's inference"),
    Row("group_normalization_*", "1_scalar 1_deeper 2_scalar 2_deeper", "scale and bias have one dimension"),
    Row("melweightmatrix", "0_* 1_*", "ONNX's inference knows no shape of no bins and no transform"),
    Row("compress_*", "0_* 1_*", "a condition of one dimension, no longer than the data"),
    Row("prelu_*", "0_scalar 1_deeper", "the slope broadcasts to the data, not the data to the slope"),
    Row("range_*_expanded", "2_0", "a step of 0 counts without end"),
    Row("gathernd_example_int32_batch_dim1", "0_* 1_*", "both have the same leading dimensions"),
    Row("resize_* upsample_*", "1_deeper 2_deeper", "a list has one dimension"),
    Row("*_pad constant_pad_* constantofshape_* expand_*", "0_deeper 1_deeper 1_scalar", "a list has one dimension"),
    Row("constant_pad_*axes", "3_*", "an axis is named once"),
    Row("split_*", "1_empty", "a list of parts names each of them"),
    Row("nonmaxsuppression_*", "2_empty 3_empty 4_empty", "a limit is one number, or left out"),
    Row("layer_normalization_*", "2_empty 2_none 2_hollow", "a bias broadcasts to the data"),
    Row("MatMulIntegerToFloat DynamicQuantizeMatMul", "1_hollow", "the bias does not fit a product of no columns"),
    Row("QLinearSoftmax QEmbedLayerNormalization", "*_empty", "ONNX Runtime reads a scale that is not there"),
    Row("QAttention", "5_short1", "ONNX Runtime reads a mask outside its end"),
    Row("MultiHeadAttention", "2_short2", "ONNX Runtime reads a past of another width outside its end"),
    Row("FeatureVectorizer", "?_deeper", "features have two dimensions"),
    Row("GroupQueryAttention", "3_deeper 5_deeper", "lengths have one number for each sequence"),
    Row("RotaryEmbedding", "0_hollow", "heads of no elements have no pairs"),
    Row("FusedConv", "0_none 1_none", "what is added does not fit a convolution of nothing"),
    Row("GatherBlockQuantized", "1_*92233720368547758*", "ONNX Runtime reads outside its table"),
    Row("LinearClassifier LinearRegressor", "0_empty 0_hollow 0_short1",
        "coefficients are of as many features as there are"),
)  # fmt: skip


def parts_of(variant):
    """Its test, or operator of a drawn test, and the change: of "drawn_QGemm_1@6_nan" "QGemm" and
    "6_nan"."""
    name, change = variant.split("@")
    if name.startswith("drawn_"):
        return name.removeprefix("drawn_").rpartition("_")[0], change
    return name.removeprefix("test_"), change


def row_of(rows, variant):
    """The first row that has it; None where none does."""
    return next((row for row in rows if row.has(*parts_of(variant))), None)
