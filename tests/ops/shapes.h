// The shapes the op tests run at: the golden mini model, the demo model, and the widths of the 35B model with few
// experts and a small vocabulary.
#pragma once

#include "model/shape.h"

namespace lily::ops {

ModelShape mini_shape();
ModelShape demo_shape();
ModelShape large_shape();

}  // namespace lily::ops
