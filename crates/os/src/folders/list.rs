//! The listing of a folder.

use super::granted_folder::Folders;
use super::resolve::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, DirEntry};
use valvehouse_json::Json;

/// The maximum number of returned entries.
const MAX_ENTRIES: usize = 2_000;
/// The maximum number of entries that are read, which limits the memory for a huge folder.
const MAX_SEEN: usize = 200_000;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link; its target is not revealed.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// Its full path.
    pub path: String,
    /// The kind of entry.
    pub kind: EntryKind,
    /// The size of a file in bytes; `None` for other kinds.
    pub size: Option<u64>,
}

/// The entries of a folder, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The path of the folder; "." for all granted folders.
    pub path: String,
    /// The entries.
    pub entries: Vec<FolderEntry>,
    /// `true` if there are more entries.
    pub cut: bool,
}

impl Folders {
    /// Returns the entries of a folder. For `.` with several granted folders, these are the granted folders.
    ///
    /// # Errors
    /// Returns an error if the folder is not granted or cannot be read.
    pub fn list(&self, path: &str) -> Result<Listing, Failure> {
        let Some(place) = self.place_or_all(path)? else {
            let entry = |place: Place<'_>| {
                let path = place.shown();
                FolderEntry { name: path.clone(), path, kind: EntryKind::Folder, size: None }
            };
            return Ok(Listing {
                path: ".".to_owned(),
                entries: self.places().map(entry).collect(),
                cut: false,
            });
        };
        let failure = |error| place.failure("list", &error);
        let dir = place.open()?.open_dir(place.inside()).map_err(failure)?;
        let (names, more) = entries(&dir).map_err(failure)?;
        let cut = more || names.len() > MAX_ENTRIES;
        let entries = names
            .iter()
            .take(MAX_ENTRIES)
            .map(|(name, found)| FolderEntry::of(name, found, &place))
            .collect();
        Ok(Listing { path: place.shown(), entries, cut })
    }
}

/// Returns the entries of an open folder sorted by name, and `true` if there are too many of them.
pub(super) fn entries(dir: &Dir) -> std::io::Result<(Vec<(String, DirEntry)>, bool)> {
    let mut entries = Vec::new();
    for entry in dir.entries()? {
        if entries.len() == MAX_SEEN {
            return Ok((sorted(entries), true));
        }
        let entry = entry?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry));
    }
    Ok((sorted(entries), false))
}

fn sorted(mut entries: Vec<(String, DirEntry)>) -> Vec<(String, DirEntry)> {
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries
}

impl FolderEntry {
    fn of(name: &str, entry: &DirEntry, folder: &Place<'_>) -> Self {
        let kind = EntryKind::of(entry);
        let size = (kind == EntryKind::File).then(|| entry.metadata().map(|it| it.len()).ok()).flatten();
        Self { name: name.to_owned(), path: folder.below(name).shown(), kind, size }
    }

    fn into_json(self) -> Json {
        let entry = Json::from([
            ("name", self.name.into()),
            ("path", self.path.into()),
            ("kind", self.kind.name().into()),
        ]);
        if let Some(size) = self.size {
            entry.edit("size", size);
        }
        entry
    }
}

impl EntryKind {
    /// Returns the kind of an entry, without following links.
    pub(super) fn of(entry: &DirEntry) -> Self {
        match entry.file_type() {
            Ok(kind) if kind.is_file() => Self::File,
            Ok(kind) if kind.is_dir() => Self::Folder,
            Ok(kind) if kind.is_symlink() => Self::Link,
            _ => Self::Other,
        }
    }

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::Other => "other",
        }
    }
}

impl Listing {
    /// Returns the listing as JSON for a model or a script.
    pub fn into_json(self) -> Json {
        let entries: Vec<Json> = self.entries.into_iter().map(FolderEntry::into_json).collect();
        Json::from([("path", self.path.into()), ("entries", entries.into()), ("cut", self.cut.into())])
    }
}
