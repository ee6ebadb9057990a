//! The objects of a class that exist, by address: a pointer that a program passes is looked up here
//! before it is used. So null, an object of another class, and usually a released object are errors
//! and not crashes: a new object may have the address of a released one.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct Registry<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        Registry(RwLock::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, object: *mut c_void, state: Arc<T>) {
        let mut objects = self.0.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(object as usize, state);
    }

    pub(crate) fn remove(&self, object: *mut c_void) {
        let mut objects = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let removed = objects.remove(&(object as usize));
        // After the lock: what it holds may take long to close.
        drop(objects);
        drop(removed);
    }

    pub(crate) fn find(&self, object: *mut c_void) -> Option<Arc<T>> {
        let objects = self.0.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&(object as usize)).cloned()
    }
}
