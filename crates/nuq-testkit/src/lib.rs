//! References for the tests of this workspace: textbook formulas written for clarity instead of speed, seeded data,
//! stored outputs of other implementations, and the tests that every index must pass.
//!
//! The oracle follows the definitions of the method, shares no code with the library, and uses plain loops.

pub mod baselines;
pub mod cancel;
pub mod conformance;
pub mod data;
pub mod gaussians;
pub mod golden;
pub mod oracle;
