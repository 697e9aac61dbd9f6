//! Variables that closures capture, so that none outlives its call.
//!
//! A closure and what it captures may hold each other, and nothing would ever free them: reference counts know no
//! circles. Each call therefore remembers what it began to share, and empties it at its end.

use rhai::Dynamic;

/// The variables that one call shares with closures.
#[derive(Default)]
pub(crate) struct Captured(Option<Box<Variables>>);

#[derive(Default)]
struct Variables(Vec<Dynamic>);

impl Captured {
    pub(crate) fn add(&mut self, shared: Dynamic) {
        self.0.get_or_insert_default().0.push(shared);
    }
}

/// A copy of a call is not the one that empties them.
impl Clone for Captured {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        for mut shared in self.0.drain(..) {
            let held = shared.write_lock::<Dynamic>().map(|mut place| std::mem::take(&mut *place));
            // The lock is released first: the value may hold the last reference to others.
            drop(held);
        }
    }
}
