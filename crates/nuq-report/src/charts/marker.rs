//! Marker shapes, one per data set.

use std::fmt::Write;

/// A marker shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Circle.
    Disk,
    /// Square rotated by 45 degrees.
    Diamond,
    /// Triangle pointing up.
    Triangle,
    /// Axis-aligned square.
    Square,
    /// Plus-shaped cross.
    Cross,
}

impl Marker {
    /// Shape of a set by its index. Only the first set has circles.
    pub(crate) fn of(set: usize) -> Self {
        const OTHERS: [Marker; 4] = [Marker::Diamond, Marker::Triangle, Marker::Square, Marker::Cross];
        if set == 0 { Marker::Disk } else { OTHERS[(set - 1) % OTHERS.len()] }
    }

    /// SVG path data of the marker around a center. Shapes with the same radius have about the same area.
    pub(crate) fn path(self, x: f64, y: f64, radius: f64) -> String {
        let r = radius;
        let mut path = String::new();
        // Writing to a String cannot fail.
        let _ = match self {
            Marker::Disk => {
                let (left, across) = (x - r, 2.0 * r);
                write!(path, "M{left:.1} {y:.1}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0-{across} 0z")
            }
            Marker::Diamond => {
                let d = 1.25 * r;
                write!(path, "M{x:.1} {:.1}l{d:.2} {d:.2}l-{d:.2} {d:.2}l-{d:.2}-{d:.2}z", y - d)
            }
            Marker::Triangle => {
                let (wide, high) = (1.3 * r, 2.3 * r);
                write!(path, "M{x:.1} {:.1}l{wide:.2} {high:.2}h-{:.2}z", y - 1.3 * r, 2.0 * wide)
            }
            Marker::Square => {
                let side = 1.8 * r;
                write!(path, "M{:.1} {:.1}h{side:.2}v{side:.2}h-{side:.2}z", x - 0.5 * side, y - 0.5 * side)
            }
            Marker::Cross => {
                let (a, b) = (0.9 * r, 0.85 * r);
                write!(
                    path,
                    "M{:.1} {:.1}h{a:.2}v{b:.2}h{b:.2}v{a:.2}h-{b:.2}v{b:.2}h-{a:.2}v-{b:.2}h-{b:.2}v-{a:.2}h{b:.2}z",
                    x - 0.5 * a,
                    y - 0.5 * a - b
                )
            }
        };
        path
    }
}
