// Search among projections of the rows.
//
// A row b becomes the point (|b - QQ'b|, Q'b): the length of the part outside the axes Q, and the coordinates on the axes. The
// distance of two points is at most the distance of their rows, up to the deviation of Q from orthonormality. So if the points of
// a row and of the query are farther apart than the query and its k-th nearest row, then the row is not among the k nearest rows.
// A point has far fewer coordinates than a row.

// Rescaled coordinates of rows in double precision, one block per row.
extern "C" __global__ void rescale(
    const float* rows, const float* center, const double* factors, unsigned dim, double* rescaled
) {
    const float* x = rows + (size_t)blockIdx.x * dim;
    double* b = rescaled + (size_t)blockIdx.x * dim;
    for (unsigned j = threadIdx.x; j < dim; j += blockDim.x) b[j] = ((double)x[j] - (double)center[j]) * factors[j];
}

// Points in half precision, from rescaled rows and their products with the axes; one block per row. The stored rounding error
// includes the error of the point before it is rounded to half precision: at most `square_error` |b|^2 in |b|^2 - |Q'b|^2, and at
// most `product_error` |b| in the products. For queries, `sq_norms` and `failed` are not null: `failed` is set for each query with a
// norm above MAX_QUERY.
extern "C" __global__ void prepare_points(
    const double* rescaled, const double* images, unsigned dim, unsigned axes, unsigned width, double square_error,
    double product_error, half_bits* halves, float4* described, double* sq_norms, unsigned* failed
) {
    size_t row = blockIdx.x;
    const double* b = rescaled + row * dim;
    const double* image = images + row * axes;
    half_bits* c = halves + row * width;
    double whole = 0.0, inside = 0.0, largest = 0.0;
    for (unsigned j = threadIdx.x; j < dim; j += blockDim.x) whole += b[j] * b[j];
    for (unsigned j = threadIdx.x; j < axes; j += blockDim.x) {
        inside += image[j] * image[j];
        largest = fmax(largest, fabs(image[j]));
    }
    whole = block_reduce(whole, 0.0).x;
    double2 all = block_reduce(inside, largest);
    double outside = fmax(whole - all.x, 0.0), length = sqrt(outside), norm = sqrt(whole);
    largest = fmax(all.y, length);
    bool too_long = !(norm <= MAX_ROW);
    int exponent = largest > 1e-30 && !too_long ? ilogb(largest) + 1 : 0;
    double down = ldexp(1.0, -exponent), up = ldexp(1.0, exponent);
    double rest = 0.0;
    for (unsigned j = threadIdx.x; j < width; j += blockDim.x) {
        half_bits bits = 0;
        if (j <= axes) {
            double y = j == 0 ? length : image[j - 1];
            if (!too_long) bits = to_half((float)(y * down));
            double error = y - up * (double)from_half(bits);
            rest += error * error;
        }
        c[j] = bits;
    }
    double2 errors = block_reduce(rest, 0.0);
    if (threadIdx.x == 0) {
        double e = square_error * whole;
        double length_error = outside > 0.0 ? fmin(sqrt(e), e / length) : sqrt(e);
        double error = (sqrt(errors.x) + length_error + product_error * norm) * UP;
        described[row] = too_long
            ? make_float4(__int_as_float(0x7f800000), 0.0f, 0.0f, 0.0f)
            : make_float4((float)(0.5 * (outside + all.x)), (float)up, __double2float_ru(error),
                          __double2float_ru((norm + length_error) * UP));
        if (sq_norms) sq_norms[row] = outside + all.x;
        if (failed) failed[row] = !(norm <= MAX_QUERY);
    }
}

// Reduces the list of candidates, which were selected by points, by means of distances between the query and some of the candidates. One
// block of 256 threads per query.
//
// The distances of k candidates with small scores bound the distance of the k-th nearest row. Candidates whose points are farther
// than this bound are dropped. If the bound is beyond the limit of the pass, rows that are no candidates may be nearer, so the
// query has failed. `unit` is the ratio of rescaled squared distances to squared distances. `stretch` bounds the ratio of the squared
// distance of two points to the squared distance of their rows, including the rounding of distances.
extern "C" __global__ void __launch_bounds__(THREADS) tighten(
    Search search, double unit, double stretch, const double* sq_norms, const float* limits, float2* bounds
) {
    __shared__ unsigned chosen[1024];
    __shared__ unsigned n_chosen;
    __shared__ float limit;
    __shared__ double largest[THREADS / LANES];
    unsigned query = blockIdx.x, k = search.k;
    if (!has_candidates(search, query)) return;
    unsigned count = search.counts[query];
    unsigned* ids = search.ids + (size_t)query * search.capacity;
    bounds += (size_t)query * search.capacity;
    float kth = kth_smallest(bounds, count, k);
    if (threadIdx.x == 0) n_chosen = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        // Entries without a candidate have a lower bound of NaN.
        if (bounds[i].y <= kth && !isnan(bounds[i].x)) {
            unsigned slot = atomicAdd(&n_chosen, 1u);
            if (slot < k) chosen[slot] = ids[i];
        }
    }
    __syncthreads();
    if (n_chosen < k) {
        if (threadIdx.x == 0) search.failed[query] = 1;
        return;
    }
    unsigned group = threadIdx.x / LANES, rounded = (k + 31) / 32 * 32;
    double most = 0.0;
    for (unsigned i = group; i < rounded; i += THREADS / LANES) {
        double s = sq_distance(search, query, chosen[i < k ? i : 0]);
        if (i < k) most = fmax(most, s);
    }
    if (threadIdx.x % LANES == 0) largest[group] = most;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < THREADS / LANES; i++) most = fmax(most, largest[i]);
        double reach = most * unit * stretch, norm = sq_norms[query];
        limit = __double2float_ru(0.5 * (reach - norm) + 1e-10 * (reach + norm) + TINY);
        if (!(limit <= limits[query])) search.failed[query] = 1;
    }
    __syncthreads();
    unsigned kept = compact(ids, bounds, count, limit);
    if (threadIdx.x == 0) search.counts[query] = kept;
}
