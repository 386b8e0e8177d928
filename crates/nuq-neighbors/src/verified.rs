//! Verification of mapped arrays before their first use.

use std::sync::{Arc, OnceLock};

use crate::Error;

/// Verifies arrays that were mapped without being read, for example by the checksums of a file.
pub trait Verifier: Send + Sync {
    /// Reads the arrays and compares them with what was written.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the section that differs.
    fn verify(&self) -> Result<(), Error>;
}

/// A verifier and its result. Arrays without a verifier need no verification.
#[derive(Clone, Default)]
pub(crate) struct Verified(Option<Arc<Check>>);

struct Check {
    verifier: Box<dyn Verifier>,
    result: OnceLock<Result<(), Error>>,
}

impl Verified {
    pub(crate) fn by(verifier: Box<dyn Verifier>) -> Self {
        Self(Some(Arc::new(Check { verifier, result: OnceLock::new() })))
    }

    /// The result of the verifier, computed at the first call. Concurrent first calls may each compute it: a verifier
    /// may use the thread pool, so no lock is held during its work.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(check) = &self.0 else { return Ok(()) };
        match check.result.get() {
            Some(result) => result.clone(),
            None => {
                let result = check.verifier.verify();
                check.result.get_or_init(|| result).clone()
            }
        }
    }
}
