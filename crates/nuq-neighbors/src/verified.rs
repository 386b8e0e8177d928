//! Verification of mapped arrays: by checksums before their first use, and that their file is unchanged after each search.

use std::sync::{Arc, OnceLock};

use crate::Error;

/// Verifies arrays that were mapped without being read, for example by the checksums of a file.
pub trait Verifier: Send + Sync {
    /// Reads the arrays and compares them with what was written.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the section that differs.
    fn verify(&self) -> Result<(), Error>;

    /// Verifies that the arrays are still those that were mapped. It is called after each search, so it must be fast.
    ///
    /// # Errors
    /// [`Error::FileChanged`] if the file of the arrays was changed, or could not be read.
    fn verify_unchanged(&self) -> Result<(), Error> {
        Ok(())
    }
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

    /// The result of [`Verifier::verify_unchanged`].
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |check| check.verifier.verify_unchanged())
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
