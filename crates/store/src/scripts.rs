//! Script sets: folders of scripts that were uploaded together, each as one generation of the store.
//!
//! A set is immutable. Restoring an earlier one writes a new set with the same files.

use crate::history::hash;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_json::Json;

/// The maximum number of stored sets; the oldest are deleted first.
pub const MAX_SCRIPT_SETS: u64 = 100;
/// The maximum size of a set's texts, in bytes.
pub const MAX_SCRIPT_SET_SIZE: usize = 64 << 20;
/// The format of manifests that this version writes, and the latest one that it reads.
const FORMAT: u64 = 1;

/// A file of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub struct ScriptFile {
    /// Its path within the set, with `/` as the separator: `filters/lib/words.rhai`.
    pub path: String,
    /// Its text.
    pub text: Arc<str>,
}

impl From<(String, String)> for ScriptFile {
    fn from((path, text): (String, String)) -> Self {
        Self { path, text: text.into() }
    }
}

impl From<ScriptFile> for (String, String) {
    fn from(file: ScriptFile) -> Self {
        (file.path, file.text.to_string())
    }
}

/// The manifest of a set: the hashes of its files, and the required version of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetManifest {
    /// The manifest as it is stored and signed: one line of JSON, equal for equal files.
    pub text: String,
    /// The minimum version of a host that can run the set.
    pub needs: String,
    /// The paths and SHA-256 hashes (hexadecimal) of the files, sorted by path.
    pub files: Vec<(String, String)>,
}

impl SetManifest {
    /// Creates the manifest of these files.
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
    /// Returns an error if the text is not a manifest, or has the format of a newer version.
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

    /// Checks that these are exactly the listed files.
    ///
    /// # Errors
    /// Returns an error if a file is missing, differs, or is not listed.
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

/// The error of a manifest that cannot be read, or that does not match its files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not a manifest.
    #[error("{0}")]
    Invalid(String),
    /// The manifest has the format of a newer host; the text is the version that it needs.
    #[error("its manifest needs a host of version {0}")]
    LaterVersion(String),
    /// A file is missing, differs, or is not listed.
    #[error("{0}")]
    Files(String),
}

/// A set of scripts in the store, without the texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptSet {
    /// The generation of the store that contains it.
    pub generation: u64,
    /// The time of the upload, in milliseconds since 1970.
    pub at: i64,
    /// The author.
    pub by: String,
    /// The stored manifest.
    pub manifest: String,
    /// The minisign signature of the manifest.
    pub signature: Option<String>,
    /// The generation that it was restored from.
    pub restored_from: Option<u64>,
}

/// A set to upload.
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

/// Returns `true` for a version of three numbers with an optional suffix.
fn is_version(text: &str) -> bool {
    let numbers: Vec<_> = text.split(['-', '+']).next().unwrap_or(text).split('.').collect();
    numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u64>().is_ok())
}
