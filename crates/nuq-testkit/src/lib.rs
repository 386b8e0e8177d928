//! What the tests of this workspace check against: textbook formulas written for clarity instead of speed,
//! seeded data, stored outputs of other implementations, and the battery that every index must pass.
//!
//! The oracle is written from the definitions of the method, shares no code with what it checks, and loops where
//! the library is clever.

pub mod baselines;
pub mod battery;
pub mod data;
pub mod gaussians;
pub mod golden;
pub mod oracle;
