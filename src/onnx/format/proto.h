/* ONNX's schema as far as it is read or written: field numbers of its messages and values of its
 * enumerations (onnx.proto3). A field is TPI_PB_<MESSAGE>_<FIELD>. */
#ifndef TAPIR_ONNX_PROTO_H
#define TAPIR_ONNX_PROTO_H

enum { /* how a field's value is stored: the low three bits of its key */
       TPI_PB_VARINT = 0,
       TPI_PB_FIXED64 = 1,
       TPI_PB_BYTES = 2, /* also strings, messages and packed numbers */
       TPI_PB_GROUP_BEGIN = 3,
       TPI_PB_GROUP_END = 4,
       TPI_PB_FIXED32 = 5
};

enum {
    TPI_PB_MODEL_IR_VERSION = 1,
    TPI_PB_MODEL_PRODUCER_NAME = 2,
    TPI_PB_MODEL_PRODUCER_VERSION = 3,
    TPI_PB_MODEL_GRAPH = 7,
    TPI_PB_MODEL_OPSET_IMPORT = 8,
    TPI_PB_MODEL_FUNCTIONS = 25
};

enum { TPI_PB_OPSET_DOMAIN = 1, TPI_PB_OPSET_VERSION = 2 };

enum { TPI_PB_ENTRY_KEY = 1, TPI_PB_ENTRY_VALUE = 2 }; /* StringStringEntryProto */

enum {
    TPI_PB_GRAPH_NODE = 1,
    TPI_PB_GRAPH_NAME = 2,
    TPI_PB_GRAPH_INITIALIZER = 5,
    TPI_PB_GRAPH_INPUT = 11,
    TPI_PB_GRAPH_OUTPUT = 12,
    TPI_PB_GRAPH_SPARSE_INITIALIZER = 15,
};

enum {
    TPI_PB_NODE_INPUT = 1,
    TPI_PB_NODE_OUTPUT = 2,
    TPI_PB_NODE_NAME = 3,
    TPI_PB_NODE_OP_TYPE = 4,
    TPI_PB_NODE_ATTRIBUTE = 5,
    TPI_PB_NODE_DOC_STRING = 6,
    TPI_PB_NODE_DOMAIN = 7,
    TPI_PB_NODE_OVERLOAD = 8,
};

enum {
    TPI_PB_ATTRIBUTE_NAME = 1,
    TPI_PB_ATTRIBUTE_F = 2,
    TPI_PB_ATTRIBUTE_I = 3,
    TPI_PB_ATTRIBUTE_S = 4,
    TPI_PB_ATTRIBUTE_T = 5,
    TPI_PB_ATTRIBUTE_G = 6,
    TPI_PB_ATTRIBUTE_FLOATS = 7,
    TPI_PB_ATTRIBUTE_INTS = 8,
    TPI_PB_ATTRIBUTE_STRINGS = 9,
    TPI_PB_ATTRIBUTE_TYPE = 20,
    TPI_PB_ATTRIBUTE_REF_ATTR_NAME = 21,
};

typedef enum tpi_pb_attribute_type { /* values of ATTRIBUTE_TYPE */
                                     TPI_PB_UNDEFINED = 0,
                                     TPI_PB_FLOAT = 1,
                                     TPI_PB_INT = 2,
                                     TPI_PB_STRING = 3,
                                     TPI_PB_TENSOR = 4,
                                     TPI_PB_GRAPH = 5,
                                     TPI_PB_FLOATS = 6,
                                     TPI_PB_INTS = 7,
                                     TPI_PB_STRINGS = 8,
} tpi_pb_attribute_type;

enum {
    TPI_PB_VALUE_INFO_NAME = 1,
    TPI_PB_VALUE_INFO_TYPE = 2,
};

enum {
    TPI_PB_TYPE_TENSOR = 1,
    TPI_PB_TYPE_SEQUENCE = 4,
    TPI_PB_TYPE_INNER_ELEM_TYPE = 1, /* of TypeProto.Sequence and TypeProto.Optional */
    TPI_PB_TYPE_DENOTATION = 6,
    TPI_PB_TYPE_OPTIONAL = 9,
    TPI_PB_TENSOR_TYPE_ELEM_TYPE = 1,
    TPI_PB_TENSOR_TYPE_SHAPE = 2,
    TPI_PB_SHAPE_DIM = 1,
    TPI_PB_DIM_VALUE = 1,
    TPI_PB_DIM_PARAM = 2,
};

enum {
    TPI_PB_TENSOR_DIMS = 1,
    TPI_PB_TENSOR_DATA_TYPE = 2,
    TPI_PB_TENSOR_SEGMENT = 3,
    TPI_PB_TENSOR_FLOAT_DATA = 4,
    TPI_PB_TENSOR_INT32_DATA = 5,
    TPI_PB_TENSOR_INT64_DATA = 7,
    TPI_PB_TENSOR_NAME = 8,
    TPI_PB_TENSOR_RAW_DATA = 9,
    TPI_PB_TENSOR_DOUBLE_DATA = 10,
    TPI_PB_TENSOR_UINT64_DATA = 11,
    TPI_PB_TENSOR_EXTERNAL_DATA = 13,
    TPI_PB_TENSOR_DATA_LOCATION = 14
};

enum { TPI_PB_LOCATION_EXTERNAL = 1 };

enum { /* of SequenceProto and OptionalProto, outside of models */
       TPI_PB_SEQUENCE_ELEM_TYPE = 2,
       TPI_PB_SEQUENCE_TENSORS = 3,
       TPI_PB_OPTIONAL_ELEM_TYPE = 2,
       TPI_PB_OPTIONAL_TENSOR = 3,
       TPI_PB_OPTIONAL_SEQUENCE = 5
};
enum {
    TPI_PB_KIND_NONE = 0,
    TPI_PB_KIND_TENSOR = 1,
    TPI_PB_KIND_SEQUENCE = 3
}; /* of ELEM_TYPE */

typedef enum tpi_pb_data_type { /* values of TENSOR_DATA_TYPE and TENSOR_TYPE_ELEM_TYPE */
                                TPI_PB_NO_TYPE = 0,
                                TPI_PB_F32 = 1,
                                TPI_PB_U8 = 2,
                                TPI_PB_I8 = 3,
                                TPI_PB_U16 = 4,
                                TPI_PB_I16 = 5,
                                TPI_PB_I32 = 6,
                                TPI_PB_I64 = 7,
                                TPI_PB_TEXT = 8,
                                TPI_PB_BOOL = 9,
                                TPI_PB_F16 = 10,
                                TPI_PB_F64 = 11,
                                TPI_PB_U32 = 12,
                                TPI_PB_U64 = 13,
                                TPI_PB_COMPLEX64 = 14,
                                TPI_PB_COMPLEX128 = 15,
                                TPI_PB_BF16 = 16,
                                TPI_PB_N_TYPES = 27
} tpi_pb_data_type;

enum {
    TPI_PB_FUNCTION_NAME = 1,
    TPI_PB_FUNCTION_INPUT = 4,
    TPI_PB_FUNCTION_OUTPUT = 5,
    TPI_PB_FUNCTION_ATTRIBUTE = 6,
    TPI_PB_FUNCTION_NODE = 7,
    TPI_PB_FUNCTION_OPSET_IMPORT = 9,
    TPI_PB_FUNCTION_DOMAIN = 10,
    TPI_PB_FUNCTION_ATTRIBUTE_PROTO = 11,
    TPI_PB_FUNCTION_OVERLOAD = 13
};

#endif
