//! Taking files away.

use super::Folders;
use crate::Failure;
use std::io;

impl Folders {
    /// Takes a file away; of a link only itself. False where it was not there.
    pub fn remove(&self, path: &str) -> Result<bool, Failure> {
        let place = self.place(path)?;
        let dir = place.open()?;
        match dir.remove_file(place.inside()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(place.failure("delete", &error)),
        }
    }
}
