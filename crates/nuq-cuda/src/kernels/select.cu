// Selection of candidates from products of queries and rows.
//
// The score of a row b for a query a is s = |b|^2 / 2 - a.b: it orders rows like their distances. Let p be the product of the row
// and the query, which are stored in half precision. With p, the score is known up to an error e:
//
//   |s - (h - w_a w_b p)| <= e = (n_a + r_a) r_b + r_a n_b + gamma n_a n_b + distance n_a^2 + square n_b^2 + tiny.
//
// h, w, r and n are the four numbers per row and per query that prepare.cu defines, stored as the parts x, y, z and w of a float4.
// Here p is not yet rounded to half precision; the storage of p in half precision adds the error w_a w_b (2^-11 |p| + 2^-25).
// gamma bounds the rounding of the product and of the score. distance bounds the rounding of the distances in double precision, by
// which neighbors are ranked in the end. square is the sum of distance and a bound on the rounding of h (see bound.rs). tiny covers
// underflow. A query has a limit: at least k rows have a score of at most the limit. A row whose computed score minus e exceeds the
// limit is not among the k nearest rows.

// A larger limit is treated as infinite. Rows with h = infinity have a norm above MAX_ROW, so their scores are larger than MAX_LIMIT.
#define MAX_LIMIT 1e29f
#define TINY 1e-37f
#define INF __int_as_float(0x7f800000)
#define QUERIES 64
#define THREADS 256

// The parts of the score and of its error that depend on the query only.
struct Coefficients {
    float unit;    // w_a
    float rest;    // factor of r_b
    float norm;    // factor of n_b
    float constant;    // distance n_a^2 + tiny
};

__device__ Coefficients coefficients(float4 query, float gamma, float distance) {
    Coefficients c;
    c.unit = query.y;
    c.rest = 1.0001f * (query.w + query.z);
    c.norm = 1.0001f * (query.z + gamma * query.w);
    c.constant = 1.0001f * distance * query.w * query.w + TINY;
    return c;
}

// A bound on the error of a product that was rounded to half precision.
__device__ float product_error(float product) {
    return fmaf(fabsf(product), 1.001f / 2048.0f, 1.0f / (1 << 24));
}

// Lower and upper bound of a score.
__device__ float2 score_bounds(float4 row, Coefficients c, float square, float product) {
    float unit = c.unit * row.y;
    float score = row.x - unit * product;
    float error = c.rest * row.z + c.norm * row.w + square * row.w * row.w + c.constant + unit * product_error(product);
    return make_float2(score - error, score + error);
}

// Appends to the list of each query the rows that the limit does not exclude.
//
// `square` is the sum of the factors of n_b^2. `tile` has one line of `line` products per query. Product i belongs to row
// first + i * stride. With `dense`, every row has its own place in the list, from `offset` on, and limits are not used.
extern "C" __global__ void __launch_bounds__(THREADS) select_rows(
    const half_bits* tile, unsigned line, const float4* rows, unsigned first, unsigned stride, unsigned count,
    const float4* queries, const float* limits, const unsigned* excluded, unsigned n_queries, float gamma,
    float distance, float square, unsigned capacity, unsigned dense, unsigned offset, unsigned* counts, unsigned* ids,
    float2* bounds
) {
    __shared__ Coefficients shared_coefficients[QUERIES];
    __shared__ float shared_limits[QUERIES];
    unsigned first_query = blockIdx.y * QUERIES;
    unsigned n = min(QUERIES, n_queries - first_query);
    if (threadIdx.x < n) {
        Coefficients c = coefficients(queries[first_query + threadIdx.x], gamma, distance);
        shared_coefficients[threadIdx.x] = c;
        shared_limits[threadIdx.x] = limits[first_query + threadIdx.x] + c.constant;
    }
    __syncthreads();
    unsigned at = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (at >= count) return;
    float4 row[4];
    float base[4];
    for (int i = 0; i < 4; i++) {
        bool inside = at + i < count;
        row[i] = inside ? rows[(size_t)first + (size_t)(at + i) * stride] : make_float4(0, 0, 0, 0);
        // A comparison with NaN is false.
        base[i] = inside ? row[i].x - square * row[i].w * row[i].w : __int_as_float(0x7fc00000);
    }
    const half_bits* products = tile + (size_t)first_query * line + at;
#pragma unroll 4
    for (unsigned q = 0; q < n; q++) {
        ushort4 four = *reinterpret_cast<const ushort4*>(products + (size_t)q * line);
        Coefficients c = shared_coefficients[q];
        float limit = shared_limits[q];
        float p[4] = {from_half(four.x), from_half(four.y), from_half(four.z), from_half(four.w)};
        for (int i = 0; i < 4; i++) {
            float product = p[i] + product_error(p[i]);
            float lower = base[i] - c.rest * row[i].z - c.norm * row[i].w - c.unit * (row[i].y * product);
            bool near = dense ? at + i < count : lower <= limit;
            if (near) {
                unsigned query = first_query + q, id = first + (at + i) * stride;
                bool is_excluded = excluded && excluded[query] == id;
                float2 bound = score_bounds(row[i], c, square, p[i]);
                if (dense) {
                    size_t place = (size_t)query * capacity + offset + at + i;
                    bool absent = is_excluded || isnan(bound.x);
                    // Rows that are no candidates have a lower bound of NaN, and an upper bound above all others.
                    ids[place] = id;
                    bounds[place] = absent ? make_float2(__int_as_float(0x7fc00000), INF) : bound;
                } else if (!is_excluded) {
                    unsigned slot = atomicAdd(&counts[query], 1u);
                    if (slot < capacity) {
                        ids[(size_t)query * capacity + slot] = id;
                        bounds[(size_t)query * capacity + slot] = bound;
                    }
                }
            }
        }
    }
}

// Starts a pass over rows: the list of each query has `length` entries.
extern "C" __global__ void start_pass(unsigned n_queries, unsigned length, unsigned* counts) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n_queries) counts[i] = length;
}

// Converts floats to unsigned integers that have the same order.
__device__ unsigned ordered(float value) {
    unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float from_ordered(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// The k-th smallest upper bound of a list of at least k entries, for a block of 256 threads.
__device__ float kth_smallest(const float2* bounds, unsigned count, unsigned k) {
    __shared__ unsigned histogram[256];
    __shared__ unsigned prefix, rank;
    if (threadIdx.x == 0) prefix = 0, rank = k - 1;
    for (int shift = 24; shift >= 0; shift -= 8) {
        histogram[threadIdx.x] = 0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < count; i += THREADS) {
            unsigned key = ordered(bounds[i].y);
            if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&histogram[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            // Each lane sums eight buckets. The lane whose buckets contain the rank finds the bucket.
            unsigned sum = 0;
            for (int i = 0; i < 8; i++) sum += histogram[threadIdx.x * 8 + i];
            unsigned through = sum;
            for (int offset = 1; offset < 32; offset *= 2) {
                unsigned other = __shfl_up_sync(0xffffffffu, through, offset);
                if (threadIdx.x >= offset) through += other;
            }
            unsigned wanted = rank, before = through - sum;
            __syncwarp();
            if (before <= wanted && wanted < through) {
                unsigned bucket = threadIdx.x * 8;
                while (before + histogram[bucket] <= wanted) before += histogram[bucket++];
                prefix = prefix << 8 | bucket;
                rank = wanted - before;
            }
        }
        __syncthreads();
    }
    return from_ordered(prefix);
}

// Drops the entries of a list whose lower bounds exceed the limit, for a block of 256 threads. Returns the number of remaining
// entries, whose order is kept. Each round reads its entries before it writes, so no entry is overwritten before it is read.
__device__ unsigned compact(unsigned* ids, float2* bounds, unsigned count, float limit) {
    __shared__ unsigned warp_counts[THREADS / 32];
    unsigned kept = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned start = 0; start < count; start += THREADS) {
        unsigned i = start + threadIdx.x;
        unsigned id = 0;
        float2 bound = make_float2(0, 0);
        bool keep = false;
        if (i < count) {
            id = ids[i];
            bound = bounds[i];
            keep = bound.x <= limit;
        }
        unsigned votes = __ballot_sync(0xffffffffu, keep);
        if (lane == 0) warp_counts[warp] = __popc(votes);
        __syncthreads();
        unsigned place = kept + __popc(votes & ((1u << lane) - 1));
        for (unsigned w = 0; w < THREADS / 32; w++) {
            if (w < warp) place += warp_counts[w];
            kept += warp_counts[w];
        }
        if (keep) {
            ids[place] = id;
            bounds[place] = bound;
        }
        __syncthreads();
    }
    return kept;
}

// Lowers the limit of each query to the k-th smallest upper bound in its list, and drops the entries above it. One block
// of 256 threads per query. Lists of at most `threshold` entries are left as they are. If a list was too short for its rows,
// `failed` is set; its entries still give a valid limit.
extern "C" __global__ void __launch_bounds__(THREADS) refine(
    unsigned k, unsigned threshold, unsigned capacity, unsigned* counts, unsigned* ids, float2* bounds,
    float* limits, unsigned* failed
) {
    unsigned query = blockIdx.x;
    unsigned count = counts[query];
    if (count <= threshold) return;
    bool is_overfull = count > capacity;
    count = min(count, capacity);
    ids += (size_t)query * capacity;
    bounds += (size_t)query * capacity;
    float limit = limits[query];
    if (count >= k) {
        limit = fminf(limit, kth_smallest(bounds, count, k));
        if (!(limit <= MAX_LIMIT)) limit = INF;
    }
    unsigned kept = compact(ids, bounds, count, limit);
    if (threadIdx.x == 0) {
        counts[query] = kept;
        limits[query] = limit;
        if (is_overfull) failed[query] = 1;
    }
}
