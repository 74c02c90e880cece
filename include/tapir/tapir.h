/* tapir: everything. Start reading at tensor.h, ops.h, composites.h, indexing.h, linalg.h, random.h,
 * grad.h, kernel.h, graph.h, nn.h, ragged.h, train.h, state.h, archive.h, control.h, capture.h, transform.h,
 * batching.h, onnx.h. */
#ifndef TAPIR_TAPIR_H
#define TAPIR_TAPIR_H

#include "archive.h"
#include "base.h"
#include "batching.h"
#include "capture.h"
#include "composites.h"
#include "control.h"
#include "grad.h"
#include "graph.h"
#include "indexing.h"
#include "kernel.h"
#include "linalg.h"
#include "nn.h"
#include "onnx.h"
#include "ops.h"
#include "params.h"
#include "ragged.h"
#include "random.h"
#include "state.h"
#include "tensor.h"
#include "train.h"
#include "transform.h"

#endif
