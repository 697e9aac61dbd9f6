//! The conversion of a path to a place inside a granted folder.

use super::granted_folder::{Folders, GrantedFolder};
use crate::failure::Failure;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum length of a path in bytes.
const MAX_LENGTH: usize = 4_096;

/// A place inside a granted folder, which may not exist.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    folder: &'a GrantedFolder,
    /// The path within the folder, which contains only names; empty for the folder itself.
    inside: PathBuf,
}

impl Folders {
    /// Returns the place of a path.
    pub(super) fn place(&self, path: &str) -> Result<Place<'_>, Failure> {
        self.place_or_all(path)?.ok_or_else(|| {
            Failure::new(format!(
                "`{path}` does not begin with a granted folder: use one of {}",
                self.listed()
            ))
        })
    }

    /// Returns the place of a path; `None` if it stands for all granted folders.
    pub(super) fn place_or_all(&self, path: &str) -> Result<Option<Place<'_>>, Failure> {
        if self.granted.is_empty() {
            return Err(Failure::ungranted("no folder is granted", "files=FOLDER"));
        }
        let parts = parts(path)?;
        if path.starts_with('/') {
            return self.absolute(path).map(Some).ok_or_else(|| self.outside(path));
        }
        if let Some((folder, inside)) = self.named(&parts) {
            return Ok(Some(Place { folder, inside }));
        }
        match self.granted.as_slice() {
            [folder] => Ok(Some(Place { folder, inside: parts.iter().collect() })),
            _ if parts.is_empty() => Ok(None),
            _ => Err(self.outside(path)),
        }
    }

    /// Returns the places of all granted folders.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.granted.iter().map(|folder| Place { folder, inside: PathBuf::new() })
    }

    /// Returns the folder whose name a path begins with, the longest name first, and the rest of the path.
    fn named(&self, parts: &[&str]) -> Option<(&GrantedFolder, PathBuf)> {
        let begins = |folder: &&GrantedFolder| {
            let name: Vec<&str> = folder.name.split('/').collect();
            parts.starts_with(&name)
        };
        let folder = self.granted.iter().filter(begins).max_by_key(|folder| folder.name.len())?;
        let length = folder.name.split('/').count();
        Some((folder, parts[length..].iter().collect()))
    }

    /// Returns the place of an absolute path in the innermost folder that it begins with, by the granted or
    /// the canonical path of the folder.
    fn absolute(&self, path: &str) -> Option<Place<'_>> {
        let path: PathBuf = Path::new(path).components().collect();
        let below = |folder: &'_ GrantedFolder| {
            let real = || std::fs::canonicalize(&folder.path).ok();
            let inside = path.strip_prefix(&folder.path).map(Path::to_owned).ok();
            inside.or_else(|| path.strip_prefix(real()?).map(Path::to_owned).ok())
        };
        let places =
            self.granted.iter().filter_map(|folder| below(folder).map(|inside| Place { folder, inside }));
        places.min_by_key(|place| place.inside.components().count())
    }

    fn outside(&self, path: &str) -> Failure {
        let message = format!("`{path}` is outside of the granted folders: {}", self.listed());
        Failure::ungranted(message, "files=FOLDER")
    }

    fn listed(&self) -> String {
        self.names()
            .map(|name| format!("`{}`", if name.is_empty() { "/" } else { name }))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Splits a path into names.
fn parts(path: &str) -> Result<Vec<&str>, Failure> {
    let refused = |why: &str| Err(Failure::new(format!("`{}` {why}", path.escape_debug())));
    if path.len() > MAX_LENGTH {
        return Err(Failure::new(format!(
            "a path of {} bytes exceeded its limit of {MAX_LENGTH} bytes",
            path.len()
        )));
    }
    if path.contains('\\') {
        return refused("contains a backslash: write `/` between folders");
    }
    if path.chars().any(char::is_control) {
        return refused("contains control characters");
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => return refused("contains `..`: write the path without it"),
            Component::Normal(name) => parts.extend(name.to_str()),
            Component::Prefix(_) => {
                return refused("begins with a drive: use a path inside a granted folder");
            }
            Component::RootDir | Component::CurDir => {}
        }
    }
    Ok(parts)
}

impl<'a> Place<'a> {
    /// Opens the granted folder. It is opened each time, because it may be created or moved meanwhile.
    pub(super) fn open(&self) -> Result<Dir, Failure> {
        Dir::open_ambient_dir(&self.folder.path, ambient_authority()).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "does not exist".to_owned(),
                io::ErrorKind::NotADirectory => "is not a folder".to_owned(),
                _ => format!("cannot be opened: {error}"),
            };
            Failure::ungranted(
                format!("the granted folder `{}` {why}: create it, or grant another", self.folder.name),
                "files=FOLDER",
            )
        })
    }

    /// Returns the path within the open folder.
    pub(super) fn inside(&self) -> &Path {
        if self.is_folder_itself() { Path::new(".") } else { &self.inside }
    }

    /// Returns `true` if this is the granted folder itself.
    pub(super) fn is_folder_itself(&self) -> bool {
        self.inside.as_os_str().is_empty()
    }

    /// Returns its path on this computer, without following links.
    pub(super) fn path(&self) -> PathBuf {
        if self.is_folder_itself() { self.folder.path.clone() } else { self.folder.path.join(&self.inside) }
    }

    /// Returns its path for results.
    pub(super) fn shown(&self) -> String {
        self.shown_in(&self.folder.name)
    }

    /// Returns its path with another prefix: the name of the folder, or its path.
    fn shown_in(&self, begin: &str) -> String {
        match self.inside.to_string_lossy() {
            inside if inside.is_empty() && begin.is_empty() => "/".to_owned(),
            inside if inside.is_empty() => begin.to_owned(),
            inside => format!("{begin}/{inside}"),
        }
    }

    /// Returns the notations of this place: the full path, the path within its folder, and the absolute path.
    pub(super) fn notations(&self) -> [String; 3] {
        let whole = self.folder.path.to_string_lossy();
        let inside = self.inside.to_string_lossy().into_owned();
        [self.shown(), inside, self.shown_in(whole.trim_end_matches('/'))]
    }

    /// Returns a place below this one.
    pub(super) fn below(&self, name: &str) -> Self {
        Self { folder: self.folder, inside: self.inside.join(name) }
    }

    /// Returns the parent and the name of this place; `None` for a granted folder itself.
    pub(super) fn parent(&self) -> Option<(Self, &str)> {
        let name = self.inside.file_name()?.to_str()?;
        let inside = self.inside.parent()?.to_owned();
        Some((Self { folder: self.folder, inside }, name))
    }

    /// Returns another place in the same folder.
    pub(super) fn elsewhere(&self, inside: PathBuf) -> Self {
        Self { folder: self.folder, inside }
    }

    /// Returns the failure of an operation at this place.
    pub(super) fn failure(&self, doing: &str, error: &io::Error) -> Failure {
        let shown = self.shown();
        // An escape is detected in this process, so it has no error number of the system.
        let is_escape = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
        if is_escape {
            return Failure::new(format!(
                "cannot {doing} `{shown}`: it leads outside of the granted folders"
            ));
        }
        let why = match error.kind() {
            io::ErrorKind::NotFound => "it does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied to the host's user".to_owned(),
            io::ErrorKind::NotADirectory => "a part of the path is not a folder".to_owned(),
            io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
            _ => error.to_string(),
        };
        Failure::new(format!("cannot {doing} `{shown}`: {why}"))
    }
}
