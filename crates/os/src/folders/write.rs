//! Writing and removing files, and creating folders.

use super::file;
use super::granted_folder::Folders;
use super::resolve::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use valvehouse_json::Json;

/// The maximum size of a text written at once, in bytes.
const MAX: usize = 1 << 20;
/// The maximum number of bytes written at once.
const MAX_BYTES: usize = 8 << 20;
/// The maximum size of a file after appending, in bytes; a larger one could not be read.
const LARGEST: u64 = file::LARGEST;

/// The way in which a file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// `true` to append instead of replacing the content.
    pub append: bool,
    /// `true` to create missing parent folders.
    pub parents: bool,
}

/// The result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteResult {
    /// The path.
    pub path: String,
    /// The number of written bytes.
    pub bytes: usize,
    /// `true` if the file is new.
    pub created: bool,
}

/// The result of creating a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedFolder {
    /// The path.
    pub path: String,
    /// `true` if the folder is new.
    pub created: bool,
}

impl Folders {
    /// Writes a text. Unless it is appended, readers see either the old or the new text, never a part of it.
    ///
    /// # Errors
    /// Returns an error if the file is not granted for writing, the text is too long, or the write fails.
    pub fn write(&self, path: &str, text: &str, how: WriteMode) -> Result<WriteResult, Failure> {
        self.write_at_most(path, text.as_bytes(), how, MAX)
    }

    /// Writes at most 8 MiB of arbitrary bytes, like [`Folders::write`].
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes exceed the limit, or if the path does not lead to a file in a granted
    /// folder.
    pub fn write_bytes(&self, path: &str, bytes: &[u8], how: WriteMode) -> Result<WriteResult, Failure> {
        self.write_at_most(path, bytes, how, MAX_BYTES)
    }

    fn write_at_most(
        &self,
        path: &str,
        text: &[u8],
        how: WriteMode,
        most: usize,
    ) -> Result<WriteResult, Failure> {
        let place = self.place(path)?;
        let shown = place.shown();
        if text.len() > most {
            let message = format!(
                "cannot write `{shown}`: {} bytes exceed the limit of {} MiB",
                text.len(),
                most >> 20
            );
            return Err(Failure::new(message));
        }
        if place.is_folder_itself() {
            return Err(Failure::new(format!("cannot write `{shown}`: it is a granted folder")));
        }
        let dir = place.open()?;
        if how.parents {
            make_parents(&dir, &place)?;
        }
        let place = behind_link(&dir, place)?;
        let created = if how.append { append(&dir, &place, text) } else { replace(&dir, &place, text) }?;
        Ok(WriteResult { path: shown, bytes: text.len(), created })
    }

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    /// Returns an error if the folder is not granted for writing or cannot be created.
    pub fn make(&self, path: &str) -> Result<CreatedFolder, Failure> {
        let place = self.place(path)?;
        let dir = place.open()?;
        let path = place.shown();
        match dir.metadata(place.inside()) {
            Ok(metadata) if metadata.is_dir() => return Ok(CreatedFolder { path, created: false }),
            Ok(_) => return Err(Failure::new(format!("cannot create the folder `{path}`: it is a file"))),
            Err(_) => {}
        }
        let made = dir.create_dir_all(place.inside());
        made.map_err(|error| place.failure("create the folder", &error))?;
        Ok(CreatedFolder { path, created: true })
    }

    /// Removes a file; of a link, only the link itself. Returns `false` if the file did not exist.
    ///
    /// # Errors
    /// Returns an error if the file is not granted for writing or cannot be removed.
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

fn make_parents(dir: &Dir, place: &Place<'_>) -> Result<(), Failure> {
    match place.parent() {
        Some((parent, _)) if !parent.is_folder_itself() => {
            dir.create_dir_all(parent.inside()).map_err(|error| parent.failure("create the folder", &error))
        }
        _ => Ok(()),
    }
}

/// Returns the place that a link points to, so that the target is written and the link is kept.
fn behind_link<'a>(dir: &Dir, place: Place<'a>) -> Result<Place<'a>, Failure> {
    match dir.symlink_metadata(place.inside()) {
        Ok(metadata) if metadata.is_symlink() => {
            let target = dir.canonicalize(place.inside());
            target.map(|inside| place.elsewhere(inside)).map_err(|error| place.failure("write", &error))
        }
        Ok(_) => Ok(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
        Err(error) => Err(place.failure("write", &error)),
    }
}

/// Writes a new file and renames it to the old one.
fn replace(dir: &Dir, place: &Place<'_>, text: &[u8]) -> Result<bool, Failure> {
    let refused = |error: io::Error| place.failure("write", &error);
    let (parent, name) = place
        .parent()
        .ok_or_else(|| Failure::new(format!("cannot write `{}`: it is not a file", place.shown())))?;
    // Both names are in this open folder, even if it is moved meanwhile.
    let parent = dir.open_dir(parent.inside()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let missing = parent.shown();
            Failure::new(format!(
                "cannot write `{}`: the folder `{missing}` does not exist; create it first, or set `parents` to create missing folders",
                place.shown()
            ))
        }
        _ => refused(error),
    })?;
    let before = match parent.symlink_metadata(name) {
        Ok(metadata) => {
            file::check(&metadata).map_err(|error| error.at(place, "write"))?;
            Some(metadata.permissions())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(refused(error)),
    };
    let created = before.is_none();
    let beside = Beside { dir: &parent, name: format!(".valvehouse-{}.tmp", uuid::Uuid::new_v4().simple()) };
    let mut file =
        parent.open_with(&beside.name, OpenOptions::new().write(true).create_new(true)).map_err(refused)?;
    if let Some(permissions) = before {
        file.set_permissions(permissions).map_err(refused)?;
    }
    file.write_all(text).and_then(|()| file.sync_data()).map_err(refused)?;
    parent.rename(&beside.name, &parent, Path::new(name)).map_err(refused)?;
    Ok(created)
}

/// A file that is being written, removed if it is not completed.
struct Beside<'a> {
    dir: &'a Dir,
    name: String,
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let _ = self.dir.remove_file(&self.name);
    }
}

fn append(dir: &Dir, place: &Place<'_>, text: &[u8]) -> Result<bool, Failure> {
    let refused = |error: io::Error| place.failure("write", &error);
    let created = !dir.try_exists(place.inside()).map_err(refused)?;
    let mut file = file::open(dir, place.inside(), OpenOptions::new().append(true).create(true))
        .map_err(|error| error.at(place, "write"))?;
    let size = file.metadata().map_err(refused)?.len();
    if size + text.len() as u64 > LARGEST {
        let message = format!("cannot append to `{}`: it would exceed the limit of 16 MiB", place.shown());
        return Err(Failure::new(message));
    }
    file.write_all(text).map_err(refused)?;
    Ok(created)
}

impl WriteResult {
    /// Returns the result as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        Json::from([
            ("path", self.path.into()),
            ("bytes", self.bytes.into()),
            ("created", self.created.into()),
        ])
    }
}

impl CreatedFolder {
    /// Returns the result as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        Json::from([("path", self.path.into()), ("created", self.created.into())])
    }
}
