/* All loops of one element type: kernels.c includes this once for each, with the names below
 * defined, which are undefined after it. */
#include "numerics/table_point.h"
#include "numerics/stencil_point.h"
#include "numerics/adi_point.h"
#include "gpu/host/vector.h"
#include "gpu/host/stencil.h"
#include "gpu/host/terms.h"
#include "gpu/host/work.h"
#include "gpu/host/table_reads.h"
#include "gpu/host/table_flows.h"
#include "gpu/host/table_sums.h"
#include "gpu/host/table_lines.h"
#include "gpu/host/ends.h"
#include "gpu/host/lines.h"
#include "gpu/host/tile.h"
#include "gpu/host/stencil_lines.h"
#include "gpu/host/adi.h"
#undef REAL
#undef SUFFIX
#undef SIMD_SUFFIX
#undef REAL_FMA
