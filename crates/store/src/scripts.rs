//! Scripts in the store: whole folders that were uploaded together, each as one generation.
//!
//! A set is never changed. Putting an earlier one back writes a new set with the same files.

use crate::error::StoreFuture;
use crate::history::hash;
use std::sync::Arc;
use valvehouse_json::Json;

/// As many sets are kept; the oldest are dropped first.
pub const MAX_SCRIPT_SETS: u64 = 100;
/// The most text of one set, in bytes.
pub const MAX_SCRIPT_SET_SIZE: usize = 64 << 20;
/// The form of manifests that this version writes, and the latest one that it reads.
const FORMAT: u64 = 1;

/// A file of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// Its path within the set, with `/`: `filters/lib/words.rhai`.
    pub path: String,
    /// Its text.
    pub text: Arc<str>,
}

/// The files of a set by their hashes, and what a host needs to run them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetManifest {
    /// The manifest as it is stored and signed: JSON in one line, the same for the same files.
    pub text: String,
    /// The earliest version of a host that can run the set.
    pub needs: String,
    /// Paths and hashes of the files (SHA-256 in hexadecimal digits), in the order of the paths.
    pub files: Vec<(String, String)>,
}

impl SetManifest {
    /// Describes these files.
    pub fn of(files: &[ScriptFile], needs: &str) -> Self {
        let mut files: Vec<(String, String)> =
            files.iter().map(|file| (file.path.clone(), hash(&file.text))).collect();
        files.sort();
        let listed = files.iter().map(|(path, hash)| {
            Json::from([("path", path.as_str().into()), ("sha256", hash.as_str().into())])
        });
        let text = Json::from([
            ("format", FORMAT.into()),
            ("needs", needs.into()),
            ("files", listed.collect::<Vec<_>>().into()),
        ]);
        Self { text: text.to_string(), needs: needs.to_owned(), files }
    }

    /// Reads a stored manifest.
    ///
    /// # Errors
    /// Returns the reason if this is not a manifest, or one of a later version.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let json = Json::parse(text.as_bytes())
            .map_err(|error| ManifestError::Invalid(format!("its manifest is not valid JSON: {error}")))?;
        let needs = json.string("needs");
        if json.count("format") != FORMAT {
            return Err(ManifestError::LaterVersion(needs.to_string()));
        }
        if !is_version(&needs) {
            return Err(ManifestError::Invalid(format!(
                "its manifest contains the invalid version {needs:?} in `needs`: expected one such as 1.2.3"
            )));
        }
        let file = |file: &Json| Some((file.text("path")?.to_string(), file.text("sha256")?.to_string()));
        let files: Option<Vec<_>> = json.list("files").iter().map(file).collect();
        let files = files.ok_or_else(|| {
            ManifestError::Invalid("its manifest lists a file without path or hash".to_owned())
        })?;
        Ok(Self { text: text.to_owned(), needs, files })
    }

    /// Checks that these are the files it lists, and no others.
    ///
    /// # Errors
    /// Returns the reason if a file is missing, is another one, or is not listed.
    pub fn check(&self, files: &[ScriptFile]) -> Result<(), ManifestError> {
        for (path, expected) in &self.files {
            match files.iter().find(|file| file.path == *path) {
                None => return Err(ManifestError::Files(format!("{path} is missing"))),
                Some(file) if hash(&file.text) != *expected => {
                    let why = format!("{path} does not match the hash in its manifest");
                    return Err(ManifestError::Files(why));
                }
                Some(_) => {}
            }
        }
        match files.iter().find(|file| !self.files.iter().any(|(path, _)| *path == file.path)) {
            Some(file) => Err(ManifestError::Files(format!("{} is not in its manifest", file.path))),
            None => Ok(()),
        }
    }
}

/// The error of a manifest that cannot be read, or that does not fit its files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not a manifest.
    #[error("{0}")]
    Invalid(String),
    /// The manifest has the format of a later host; this is the version that it needs.
    #[error("its manifest needs a host of version {0}")]
    LaterVersion(String),
    /// A file is missing, is another one, or is not listed.
    #[error("{0}")]
    Files(String),
}

/// A set of scripts in the store, without the texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSet {
    /// The generation of the store that it came with.
    pub generation: u64,
    /// The time of the upload, in milliseconds since 1970.
    pub at: i64,
    /// The author.
    pub by: String,
    /// The manifest as it is stored.
    pub manifest: String,
    /// The signature of the manifest, in the form of minisign.
    pub signature: Option<String>,
    /// The generation whose files it brings back.
    pub restored_from: Option<u64>,
}

/// A set to be uploaded.
#[derive(Debug, Clone, Copy)]
pub struct NewScriptSet<'a> {
    /// The manifest of the files.
    pub manifest: &'a SetManifest,
    /// The files.
    pub files: &'a [ScriptFile],
    /// The signature of the manifest.
    pub signature: Option<&'a str>,
    /// The author.
    pub by: &'a str,
}

/// The sets of scripts in the store.
pub trait ScriptSets: Send + Sync {
    /// Returns the sets, the latest first.
    fn script_sets(&self) -> StoreFuture<'_, Vec<ScriptSet>>;

    /// Returns the files of the set of a generation, in the order of their paths.
    fn script_files(&self, generation: u64) -> StoreFuture<'_, Vec<ScriptFile>>;

    /// Stores a set and returns its generation: all of it, or nothing.
    fn put_script_set<'a>(&'a self, set: &'a NewScriptSet<'a>) -> StoreFuture<'a, u64>;

    /// Stores the files of an earlier set as a new one, signature included, and returns its generation; `None` if the
    /// store does not have that set.
    fn restore_script_set<'a>(&'a self, generation: u64, by: &'a str) -> StoreFuture<'a, Option<u64>>;
}
/// Returns `true` for three numbers and a suffix.
fn is_version(text: &str) -> bool {
    let numbers: Vec<_> = text.split(['-', '+']).next().unwrap_or(text).split('.').collect();
    numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u64>().is_ok())
}
