// Reference of the ops that are a norm, a matrix product or a table look-up: embed_tokens, norm_linear,
// linear_residual, final_norm, lm_head.
#pragma once

#include <cstdint>
#include <span>

#include "tests/ref/matrix.h"
#include "tests/ref/values.h"

namespace lily::ref {

/// out[r] = W · x[r]; x is [rows, W.cols], out [rows, W.rows]. Nothing is rounded.
Values linear(const Matrix& weight, const Values& x);
/// out[r] = x[r] · rsqrt(mean(x[r]²) + eps) · gain, unrounded; x is [rows, gain.size()].
Values rms_norm(const Values& x, const Values& gain, double eps);

/// out[i] = round(row tokens[i] of the table).
Values embed_tokens(const Matrix& table, std::span<const int32_t> tokens, Rounding rounding);
/// out = round(W · round(rmsnorm(x) · gain)).
Values norm_linear(const Matrix& weight, const Values& gain, double eps, const Values& x, Rounding rounding);
/// residual = round(residual + W · x).
void linear_residual(const Matrix& weight, const Values& x, Values& residual, Rounding rounding);
/// out = round(rmsnorm(x) · gain): the final norm of the rows given.
Values final_norm(const Values& x, const Values& gain, double eps, Rounding rounding);
/// logits = W · x, never rounded.
Values lm_head(const Matrix& weight, const Values& x);

/// Rounds every element in place.
void round_all(Values& values, Rounding rounding);

}  // namespace lily::ref
