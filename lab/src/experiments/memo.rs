//! Values that are computed once per run and shared by experiments.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use crate::LabError;

/// Values by key, each computed on first use.
pub(super) struct Memo<K, V> {
    values: RefCell<HashMap<K, Rc<V>>>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self { values: RefCell::default() }
    }
}

impl<K: Eq + Hash, V> Memo<K, V> {
    pub(super) fn get(
        &self,
        key: K,
        compute: impl FnOnce() -> Result<V, LabError>,
    ) -> Result<Rc<V>, LabError> {
        if let Some(value) = self.values.borrow().get(&key) {
            return Ok(value.clone());
        }
        // `compute` may call `get` for other keys, so the map must not be borrowed here.
        let value = Rc::new(compute()?);
        self.values.borrow_mut().insert(key, value.clone());
        Ok(value)
    }
}

/// The value of a cell, computed on first use. Unlike [`OnceCell::get_or_init`], the computation may fail.
pub(super) fn get_or_try_init<T>(
    cell: &OnceCell<T>,
    compute: impl FnOnce() -> Result<T, LabError>,
) -> Result<&T, LabError> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = compute()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_computed_once_and_failures_are_retried() {
        let (memo, cell) = (Memo::default(), OnceCell::new());
        let fail = || Err(LabError::Stopped { epoch: 1 });
        assert!(memo.get(1, fail).is_err() && get_or_try_init(&cell, fail).is_err());
        assert_eq!((*memo.get(1, || Ok(10)).unwrap(), *get_or_try_init(&cell, || Ok(20)).unwrap()), (10, 20));
        assert_eq!((*memo.get(1, fail).unwrap(), *get_or_try_init(&cell, fail).unwrap()), (10, 20));
    }

    #[test]
    fn computing_a_value_may_use_another() {
        let memo = Memo::default();
        let sum = memo.get(2, || Ok(1 + *memo.get(1, || Ok(10))?));
        assert_eq!(*sum.unwrap(), 11);
    }
}
