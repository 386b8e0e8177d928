//! What is computed once in a run, however many experiments ask for it.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use crate::LabError;

/// Values by key, each made when it is first asked for.
pub(super) struct Memo<K, V> {
    known: RefCell<HashMap<K, Rc<V>>>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self { known: RefCell::default() }
    }
}

impl<K: Eq + Hash, V> Memo<K, V> {
    pub(super) fn get(&self, key: K, make: impl FnOnce() -> Result<V, LabError>) -> Result<Rc<V>, LabError> {
        if let Some(value) = self.known.borrow().get(&key) {
            return Ok(value.clone());
        }
        // Making one value may ask for others: nothing is borrowed meanwhile.
        let value = Rc::new(make()?);
        self.known.borrow_mut().insert(key, value.clone());
        Ok(value)
    }
}

/// The value of a cell, made when it is first asked for.
pub(super) fn once<T>(
    cell: &OnceCell<T>,
    make: impl FnOnce() -> Result<T, LabError>,
) -> Result<&T, LabError> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = make()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_once_and_failures_again() {
        let (memo, cell) = (Memo::default(), OnceCell::new());
        let fail = || Err(LabError::Stopped { epoch: 1 });
        assert!(memo.get(1, fail).is_err() && once(&cell, fail).is_err());
        assert_eq!((*memo.get(1, || Ok(10)).unwrap(), *once(&cell, || Ok(20)).unwrap()), (10, 20));
        assert_eq!((*memo.get(1, fail).unwrap(), *once(&cell, fail).unwrap()), (10, 20));
    }

    #[test]
    fn one_value_may_need_another() {
        let memo = Memo::default();
        let sum = memo.get(2, || Ok(1 + *memo.get(1, || Ok(10))?));
        assert_eq!(*sum.unwrap(), 11);
    }
}
