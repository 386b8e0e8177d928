// Copies arrays of other libraries.

// A value of type float16 (0), bfloat16 (1), float32 (2) or float64 (3), rounded to float32.
__device__ float element(const void* values, unsigned type, long long at) {
    if (type == 0) return from_half(static_cast<const half_bits*>(values)[at]);
    if (type == 1) return __uint_as_float((unsigned)static_cast<const unsigned short*>(values)[at] << 16);
    if (type == 2) return static_cast<const float*>(values)[at];
    return __double2float_rn(static_cast<const double*>(values)[at]);
}

// Copies `count` values of a matrix to rows without gaps. Strides are in elements. `first_invalid` becomes the position of the
// first value that is not finite.
extern "C" __global__ void import_rows(
    const void* values, unsigned type, unsigned long long count, unsigned columns, long long row_stride,
    long long column_stride, float* rows, unsigned long long* first_invalid
) {
    unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        long long row = i / columns, column = i % columns;
        float value = element(values, type, row * row_stride + column * column_stride);
        rows[i] = value;
        // The value is not finite: it exceeds the largest finite value, or it is NaN, with which a comparison is false.
        if (!(fabsf(value) <= 3.402823466e+38f)) atomicMin(first_invalid, i);
    }
}
