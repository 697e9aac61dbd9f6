//! The granted folders and their names in paths.

use std::path::{Component, Path, PathBuf};

/// The folders that a plugin may use.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    pub(super) granted: Vec<GrantedFolder>,
}

/// A granted folder.
#[derive(Debug, Clone)]
pub(super) struct GrantedFolder {
    /// Its name in paths.
    pub(super) name: String,
    /// Its path.
    pub(super) path: PathBuf,
}

impl Folders {
    /// Creates access to these folders and everything in them.
    pub fn new(granted: &[PathBuf]) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in granted.iter().map(|path| plain(path)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let names = distinct(&paths);
        let granted = names.into_iter().zip(paths).map(|(name, path)| GrantedFolder { name, path });
        Self { granted: granted.collect() }
    }

    /// Returns the names for paths, in the order of the grant.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.granted.iter().map(|folder| folder.name.as_str())
    }
}

/// Returns a path without `.` and `..`, without resolving links: `notes` for `data/../notes`.
fn plain(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the shortest suffix of each path that distinguishes it, which has at least one part.
fn distinct(paths: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = paths.iter().map(|path| parts(path)).collect();
    let end = |own: &[String], count: usize| own[own.len().saturating_sub(count)..].join("/");
    let name = |own: &Vec<String>| {
        let longest = parts.iter().map(Vec::len).max().unwrap_or(1);
        let is_alone =
            |count: &usize| parts.iter().filter(|other| end(other, *count) == end(own, *count)).count() == 1;
        end(own, (1..=longest).find(is_alone).unwrap_or(longest))
    };
    parts.iter().map(name).collect()
}

fn parts(path: &Path) -> Vec<String> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    names.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_the_shortest_unique_names() {
        let names = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| plain(Path::new(path))).collect();
            distinct(&paths)
        };
        assert_eq!(names(&["/srv/data"]), ["data"]);
        assert_eq!(names(&["/srv/data/.", "/srv/x/../notes"]), ["data", "notes"]);
        assert_eq!(names(&["/srv/old/data", "/srv/new/data", "/srv/b"]), ["old/data", "new/data", "b"]);
        assert_eq!(names(&["/srv/data", "/srv/data/sub"]), ["data", "sub"]);
        assert_eq!(names(&["/", "/data"]), ["", "data"]);
        assert_eq!(names(&["/data", "/srv/data"]), ["data", "srv/data"]);
    }
}
