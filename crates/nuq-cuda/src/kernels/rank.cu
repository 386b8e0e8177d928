// Squared distances of the candidates in double precision, and the k nearest of them.
//
// Each sum has eight lanes, which are added in a fixed order and without fused multiply-add. So the results are bit for bit equal
// to the results of nuq_neighbors::sq_distance.

#define THREADS 256
#define LANES 8

__device__ double lane_sum(const float* a, const float* b, const double* scale, unsigned dim, unsigned lane) {
    double sum = 0.0;
    if (scale) {
        for (unsigned j = lane; j < dim; j += LANES) {
            double difference = __ddiv_rn(__dsub_rn((double)a[j], (double)b[j]), scale[j]);
            sum = __dadd_rn(sum, __dmul_rn(difference, difference));
        }
        return sum;
    }
    unsigned j = lane;
    // The loads are independent of each other. They come before the additions, each of which depends on the previous one.
    for (; j + 7 * LANES < dim; j += 8 * LANES) {
        float x[8], y[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] = a[j + i * LANES];
            y[i] = b[j + i * LANES];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            double difference = __dsub_rn((double)x[i], (double)y[i]);
            sum = __dadd_rn(sum, __dmul_rn(difference, difference));
        }
    }
    for (; j < dim; j += LANES) {
        double difference = __dsub_rn((double)a[j], (double)b[j]);
        sum = __dadd_rn(sum, __dmul_rn(difference, difference));
    }
    return sum;
}

// Rows, queries and candidate lists of a search by distances.
struct Search {
    const float* rows;
    const float* queries;
    const double* scale;
    unsigned* counts;
    unsigned* ids;
    unsigned* failed;
    unsigned dim, k, capacity;
};

// Whether a query is not marked as failed, and its list has at least k rows and had space for all rows that were appended. Otherwise marks
// the query as failed.
__device__ bool has_candidates(Search search, unsigned query) {
    if (search.failed[query]) return false;
    unsigned count = search.counts[query];
    bool is_valid = count >= search.k && count <= search.capacity;
    if (!is_valid && threadIdx.x == 0) search.failed[query] = 1;
    return is_valid;
}

// The squared distance of a query to a row, computed by LANES neighboring threads. All threads of a warp must call this function.
__device__ double sq_distance(Search search, unsigned query, unsigned row) {
    const float* a = search.queries + (size_t)query * search.dim;
    const float* b = search.rows + (size_t)row * search.dim;
    double s = lane_sum(a, b, search.scale, search.dim, threadIdx.x % LANES);
    // ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)): addition is commutative, so all lanes get the same bits.
    s = __dadd_rn(s, __shfl_xor_sync(0xffffffffu, s, 4));
    s = __dadd_rn(s, __shfl_xor_sync(0xffffffffu, s, 2));
    return __dadd_rn(s, __shfl_xor_sync(0xffffffffu, s, 1));
}

// One block per query. `space` is `capacity` doubles followed by `capacity` ids.
extern "C" __global__ void __launch_bounds__(THREADS) rank_candidates(
    Search search, unsigned* nearest_ids, double* nearest
) {
    extern __shared__ double space[];
    double* sq = space;
    unsigned* id = reinterpret_cast<unsigned*>(space + search.capacity);
    unsigned query = blockIdx.x, k = search.k;
    if (!has_candidates(search, query)) return;
    unsigned count = search.counts[query];
    const unsigned* ids = search.ids + (size_t)query * search.capacity;
    unsigned lane = threadIdx.x % LANES, rounded = (count + 31) / 32 * 32;
    for (unsigned i = threadIdx.x / LANES; i < rounded; i += THREADS / LANES) {
        unsigned row = ids[i < count ? i : 0];
        double s = sq_distance(search, query, row);
        if (lane == 0 && i < count) {
            sq[i] = s;
            id[i] = row;
        }
    }
    // The list is filled up to a power of two, and sorted by distance and id with bitonic sort.
    unsigned size = 1;
    while (size < count) size *= 2;
    for (unsigned i = count + threadIdx.x; i < size; i += THREADS) {
        sq[i] = __longlong_as_double(0x7ff0000000000000LL);
        id[i] = 0xffffffffu;
    }
    __syncthreads();
    for (unsigned block = 2; block <= size; block *= 2) {
        for (unsigned step = block / 2; step > 0; step /= 2) {
            for (unsigned i = threadIdx.x; i < size; i += THREADS) {
                unsigned j = i ^ step;
                if (j > i) {
                    bool up = (i & block) == 0;
                    bool greater = sq[i] > sq[j] || (sq[i] == sq[j] && id[i] > id[j]);
                    if (greater == up) {
                        double s = sq[i];
                        sq[i] = sq[j];
                        sq[j] = s;
                        unsigned other = id[i];
                        id[i] = id[j];
                        id[j] = other;
                    }
                }
            }
            __syncthreads();
        }
    }
    for (unsigned i = threadIdx.x; i < k; i += THREADS) {
        nearest_ids[(size_t)query * k + i] = id[i];
        nearest[(size_t)query * k + i] = sq[i];
    }
}
