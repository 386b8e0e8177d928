// Rows and queries in half precision, with measured rounding errors.
//
// A row x is rescaled to b_j = (x_j - center_j) * factor_j in double precision and stored as w * c, where w is a power of
// two and c has coordinates of at most 1 in half precision. Four further numbers are stored per row:
//
//   h = |b|^2 / 2,   w,   r >= |b - w c|,   n >= |b|.
//
// r is measured, not estimated: it includes the error of coordinates that are too small for half precision.
// A row with a norm |b| above MAX_ROW has h = infinity and c = 0. A removed row has h = NaN. Both have w = r = n = 0.

typedef unsigned short half_bits;

#define MAX_ROW 1e15
#define MAX_QUERY 1e10
// A factor that covers the rounding of sums of at most 2^28 terms in double precision.
#define UP (1.0 + 1e-6)

__device__ half_bits to_half(float value) {
    half_bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ float from_half(half_bits bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Sum and maximum over the threads of a block of at most 1024 threads; the result is valid in all threads.
__device__ double2 block_reduce(double sum, double largest) {
    __shared__ double2 partial[33];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    __syncthreads();
    if (lane == 0) partial[warp] = make_double2(sum, largest);
    __syncthreads();
    if (threadIdx.x == 0) {
        double2 all = partial[0];
        for (unsigned i = 1; i < warps; i++) {
            all.x += partial[i].x;
            all.y = fmax(all.y, partial[i].y);
        }
        partial[32] = all;
    }
    __syncthreads();
    return partial[32];
}

// One block per row. If the rows are queries, `failed` is not null, and is set for each query with a norm above MAX_QUERY.
extern "C" __global__ void prepare(
    const float* rows, const float* center, const double* factors, unsigned dim, unsigned width,
    half_bits* halves, float4* described, unsigned* failed
) {
    size_t row = blockIdx.x;
    const float* x = rows + row * dim;
    half_bits* c = halves + row * width;
    double sum = 0.0, largest = 0.0;
    for (unsigned j = threadIdx.x; j < dim; j += blockDim.x) {
        double b = ((double)x[j] - (double)center[j]) * factors[j];
        sum += b * b;
        largest = fmax(largest, fabs(b));
    }
    double2 all = block_reduce(sum, largest);
    double norm = sqrt(all.x);
    bool too_long = !(norm <= MAX_ROW);
    if (failed && threadIdx.x == 0) failed[row] = !(norm <= MAX_QUERY);
    // The power of two above the largest coordinate. Tiny rows are stored as zeros; then r is their norm.
    int exponent = all.y > 1e-30 && !too_long ? ilogb(all.y) + 1 : 0;
    double down = ldexp(1.0, -exponent), up = ldexp(1.0, exponent);
    double rest = 0.0;
    for (unsigned j = threadIdx.x; j < width; j += blockDim.x) {
        half_bits bits = 0;
        if (j < dim) {
            double b = ((double)x[j] - (double)center[j]) * factors[j];
            if (!too_long) bits = to_half((float)(b * down));
            double error = b - up * (double)from_half(bits);
            rest += error * error;
        }
        c[j] = bits;
    }
    double2 errors = block_reduce(rest, 0.0);
    if (threadIdx.x == 0) {
        described[row] = too_long
            ? make_float4(__int_as_float(0x7f800000), 0.0f, 0.0f, 0.0f)
            : make_float4((float)(0.5 * all.x), (float)up, __double2float_ru(sqrt(errors.x) * UP),
                          __double2float_ru(norm * UP));
    }
}

// Marks rows as removed.
extern "C" __global__ void remove_rows(const unsigned* ids, unsigned count, float4* described) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) described[ids[i]] = make_float4(__int_as_float(0x7fc00000), 0.0f, 0.0f, 0.0f);
}

// Copies rows with the given ids, one block per row.
extern "C" __global__ void gather(const float* rows, const unsigned* ids, unsigned dim, float* gathered) {
    const float* from = rows + (size_t)ids[blockIdx.x] * dim;
    float* to = gathered + (size_t)blockIdx.x * dim;
    for (unsigned j = threadIdx.x; j < dim; j += blockDim.x) to[j] = from[j];
}
