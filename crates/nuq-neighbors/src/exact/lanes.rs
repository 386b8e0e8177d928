//! Squared distances of one query to many points or boxes at a time, one per lane of a vector register.
//!
//! A block holds `width` columns of 32 numbers: column j of 32 points, or the lower and the upper ends of column j of
//! 16 boxes. Sums of squares grow with each column, so the comparison with a block ends as soon as all of its lanes
//! exceed a cutoff.

/// Points per group.
pub(super) const POINTS: usize = 32;
/// Boxes per block, and groups per node.
pub(super) const BOXES: usize = 16;
/// Columns between two comparisons with the cutoff.
const COLUMNS: usize = 8;

/// A point whose squared distance is at most the cutoff: the distance and the position of the point.
pub(super) type Survivor = (f32, u32);

/// One node: 16 groups of points, and a block with the box of each group.
pub(super) struct Node<'a> {
    pub(super) boxes: &'a [f32],
    pub(super) points: &'a [f32],
    /// The position of the first point.
    pub(super) first: u32,
}

/// Defines a function that calls its implementation with the widest vector instructions of the processor. The parameter `FMA` of the
/// implementation states whether these include fused multiply-add.
macro_rules! for_each_instruction_set {
    ($name:ident, $avx512:ident, $avx2:ident, $any:ident, ($($arg:ident: $type:ty),*) -> $result:ty) => {
        pub(super) fn $name($($arg: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor supports AVX-512F, the only requirement of the function.
                    return unsafe { $avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the processor supports AVX2 and FMA, the only requirements of the function.
                    return unsafe { $avx2($($arg),*) };
                }
            }
            $any::<false>($($arg),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn $avx512($($arg: $type),*) -> $result {
            $any::<true>($($arg),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $avx2($($arg: $type),*) -> $result {
            $any::<true>($($arg),*)
        }
    };
}
pub(super) use for_each_instruction_set;

for_each_instruction_set!(
    scan,
    scan_avx512,
    scan_avx2,
    scan_any,
    (node: &Node<'_>, queries: &mut [Scan<'_>]) -> usize
);
for_each_instruction_set!(
    groups_within,
    groups_within_avx512,
    groups_within_avx2,
    groups_within_any,
    (query: &[f32], boxes: &[f32], cutoff: f32) -> u16
);
for_each_instruction_set!(
    box_distances,
    box_distances_avx512,
    box_distances_avx2,
    box_distances_any,
    (query: &[f32], blocks: &[f32], distances: &mut [f32]) -> ()
);
for_each_instruction_set!(
    point_distances,
    point_distances_avx512,
    point_distances_avx2,
    point_distances_any,
    (query: &[f32], blocks: &[f32], distances: &mut [f32]) -> ()
);
for_each_instruction_set!(
    exceeds,
    exceeds_avx512,
    exceeds_avx2,
    exceeds_any,
    (a: &[f32], b: &[f32], cutoff: f32) -> bool
);

/// One query of a scan.
pub(super) struct Scan<'a> {
    pub(super) point: &'a [f32],
    /// The groups that are scanned, one bit each.
    pub(super) groups: u16,
    pub(super) cutoff: f32,
    pub(super) survivors: &'a mut Vec<Survivor>,
}

/// Appends, for each query, the points of its chosen groups that are within its cutoff to its survivors. Each group
/// is read once for all queries. Returns the number of blocks that were compared.
#[inline(always)]
fn scan_any<const FMA: bool>(node: &Node<'_>, queries: &mut [Scan<'_>]) -> usize {
    let mut blocks = 0;
    let size = node.points.len() / BOXES;
    for (group, points) in node.points.chunks_exact(size).enumerate() {
        let first = node.first + (group * POINTS) as u32;
        // Queries are compared in pairs. A query waits here for the second one of its pair.
        let mut waiting = None;
        for at in 0..queries.len() {
            if queries[at].groups >> group & 1 == 0 {
                continue;
            }
            blocks += 1;
            let Some(other) = waiting.take() else {
                waiting = Some(at);
                continue;
            };
            let [a, b] = [&queries[other], &queries[at]];
            if let Some([a, b]) = pair_within::<FMA>([a.point, b.point], points, [a.cutoff, b.cutoff]) {
                queries[other].keep_survivors(&a, first);
                queries[at].keep_survivors(&b, first);
            }
        }
        if let Some(at) = waiting
            && let Some(distances) = points_within::<FMA>(queries[at].point, points, queries[at].cutoff)
        {
            queries[at].keep_survivors(&distances, first);
        }
    }
    blocks
}

impl Scan<'_> {
    /// Appends the points of a group, given their distances, that are within the cutoff.
    #[inline(always)]
    fn keep_survivors(&mut self, distances: &[f32; POINTS], first: u32) {
        let mut within = points_at_most(distances, self.cutoff);
        while within != 0 {
            let lane = within.trailing_zeros();
            self.survivors.push((distances[lane as usize], first + lane));
            within &= within - 1;
        }
    }
}

/// The groups of a node, one bit each, whose boxes are within the cutoff.
#[inline(always)]
fn groups_within_any<const FMA: bool>(query: &[f32], boxes: &[f32], cutoff: f32) -> u16 {
    boxes_at_most(&boxes_within::<FMA>(query, boxes, cutoff), cutoff)
}

/// The distances that are at most the cutoff, one bit each.
#[inline(always)]
pub(super) fn boxes_at_most(distances: &[f32; BOXES], cutoff: f32) -> u16 {
    let mut bits = [0u32; BOXES];
    for lane in 0..BOXES {
        bits[lane] = if distances[lane] <= cutoff { 1 << lane } else { 0 };
    }
    // Halves are combined, because a sum over all lanes would be computed lane by lane.
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            bits[lane] |= bits[lane + half];
        }
    }
    bits[0] as u16
}

/// As [`boxes_at_most`], for the points of a group.
#[inline(always)]
pub(super) fn points_at_most(distances: &[f32; POINTS], cutoff: f32) -> u32 {
    let (halves, _) = distances.as_chunks::<BOXES>();
    u32::from(boxes_at_most(&halves[0], cutoff)) | u32::from(boxes_at_most(&halves[1], cutoff)) << BOXES
}

/// The squared distances to all boxes of consecutive blocks.
#[inline(always)]
fn box_distances_any<const FMA: bool>(query: &[f32], blocks: &[f32], distances: &mut [f32]) {
    let blocks = blocks.chunks_exact(query.len() * 2 * BOXES);
    for (block, distances) in blocks.zip(distances.chunks_exact_mut(BOXES)) {
        distances.copy_from_slice(&boxes_within::<FMA>(query, block, f32::INFINITY));
    }
}

/// The squared distances to all points of consecutive blocks.
#[inline(always)]
fn point_distances_any<const FMA: bool>(query: &[f32], blocks: &[f32], distances: &mut [f32]) {
    let blocks = blocks.chunks_exact(query.len() * POINTS);
    for (block, distances) in blocks.zip(distances.chunks_exact_mut(POINTS)) {
        let sums = points_within::<FMA>(query, block, f32::INFINITY);
        distances.copy_from_slice(&sums.unwrap_or([f32::INFINITY; POINTS]));
    }
}

/// The squared distances to 32 points, or `None` if all of them exceed the cutoff.
#[inline(always)]
pub(super) fn points_within<const FMA: bool>(
    query: &[f32],
    block: &[f32],
    cutoff: f32,
) -> Option<[f32; POINTS]> {
    let mut sums = [0f32; POINTS];
    for (query, columns) in query.chunks(COLUMNS).zip(block.as_chunks::<POINTS>().0.chunks(COLUMNS)) {
        for (&q, column) in query.iter().zip(columns) {
            for lane in 0..POINTS {
                sums[lane] = add_square::<FMA>(sums[lane], q - column[lane]);
            }
        }
        if !any_within(&sums, cutoff) {
            return None;
        }
    }
    Some(sums)
}

/// The squared distances of two queries to 32 points, or `None` if all of them exceed the cutoffs. Two queries at a time
/// take less time than one after the other, because each addition to a sum must wait for the previous one.
#[inline(always)]
fn pair_within<const FMA: bool>(
    queries: [&[f32]; 2],
    block: &[f32],
    cutoffs: [f32; 2],
) -> Option<[[f32; POINTS]; 2]> {
    let (mut a, mut b) = ([0f32; POINTS], [0f32; POINTS]);
    let queries = queries[0].chunks(COLUMNS).zip(queries[1].chunks(COLUMNS));
    for ((p, q), columns) in queries.zip(block.as_chunks::<POINTS>().0.chunks(COLUMNS)) {
        for ((&p, &q), column) in p.iter().zip(q).zip(columns) {
            for lane in 0..POINTS {
                a[lane] = add_square::<FMA>(a[lane], p - column[lane]);
                b[lane] = add_square::<FMA>(b[lane], q - column[lane]);
            }
        }
        if !any_within(&a, cutoffs[0]) && !any_within(&b, cutoffs[1]) {
            return None;
        }
    }
    Some([a, b])
}

#[inline(always)]
fn any_within(sums: &[f32; POINTS], cutoff: f32) -> bool {
    let mut is_near = false;
    for &sum in sums {
        is_near |= sum <= cutoff;
    }
    is_near
}

/// The squared distances to 16 boxes. If all of them exceed the cutoff, the sums may be incomplete.
#[inline(always)]
pub(super) fn boxes_within<const FMA: bool>(query: &[f32], block: &[f32], cutoff: f32) -> [f32; BOXES] {
    let mut sums = [0f32; BOXES];
    for (query, columns) in query.chunks(COLUMNS).zip(block.as_chunks::<{ 2 * BOXES }>().0.chunks(COLUMNS)) {
        for (&q, column) in query.iter().zip(columns) {
            for lane in 0..BOXES {
                let (below, above) = (column[lane] - q, q - column[BOXES + lane]);
                let outside = if below > above { below } else { above };
                sums[lane] = add_square::<FMA>(sums[lane], if outside > 0.0 { outside } else { 0.0 });
            }
        }
        let mut is_near = false;
        for &sum in &sums {
            is_near |= sum <= cutoff;
        }
        if !is_near {
            break;
        }
    }
    sums
}

/// Whether the squared distance of two rows exceeds the cutoff.
#[inline(always)]
fn exceeds_any<const FMA: bool>(a: &[f32], b: &[f32], cutoff: f32) -> bool {
    const LANES: usize = 64;
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for (a, b) in a_chunks.chunks(4).zip(b_chunks.chunks(4)) {
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                sums[lane] = add_square::<FMA>(sums[lane], a[lane] - b[lane]);
            }
        }
        if add_lanes(&sums) > cutoff {
            return true;
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum = add_square::<FMA>(*sum, a - b);
    }
    add_lanes(&sums) > cutoff
}

#[inline(always)]
fn add_lanes(sums: &[f32; 64]) -> f32 {
    let mut folded = [0f32; 16];
    for part in sums.as_chunks::<16>().0 {
        for lane in 0..16 {
            folded[lane] += part[lane];
        }
    }
    folded.iter().sum()
}

#[inline(always)]
fn add_square<const FMA: bool>(sum: f32, difference: f32) -> f32 {
    if FMA { difference.mul_add(difference, sum) } else { sum + difference * difference }
}
