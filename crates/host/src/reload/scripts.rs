//! A set of scripts in the store, which is checked and scanned like a folder.

use crate::plan::Plan;
use crate::plugin::Plugins;
use minisign_verify::{PublicKey, Signature};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use valvehouse_script::{Code, Diagnostic, FolderScan, Kind, SourceSet, claims_of};
use valvehouse_store::{ScriptFile, ScriptSet, SetManifest};

/// The version of this host.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A set of scripts, with its files scanned.
pub(super) struct Scripts {
    /// The generation of the set; 0 if the store has none.
    pub(super) generation: u64,
    /// The texts by the paths that they would have on disk.
    pub(super) sources: Arc<SourceSet>,
    /// The files in the folders of filters, tools and actions.
    pub(super) found: [Arc<FolderScan>; 3],
}

/// A generation of the store that a host does not apply; the previous one stays in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedGeneration {
    /// The generation.
    pub generation: u64,
    /// The reason.
    pub why: String,
    /// The guards of that generation that do not run on this host.
    pub missing_guards: Vec<String>,
    /// `true` if the host runs that generation in part, because it had no previous one when it started.
    pub in_part: bool,
}

impl RefusedGeneration {
    /// Returns the reason as an error.
    pub fn message(&self) -> String {
        format!("cannot apply generation {} of the store: {}", self.generation, self.why)
    }

    /// Returns the diagnostic of a host that keeps the previous generation.
    pub(super) fn problem(&self, plan: &Plan) -> Diagnostic {
        let help = match self.in_part {
            true => {
                "its other scripts are in force; fix it and run: valvehouse apply, or valvehouse rollback GENERATION"
            }
            false => {
                "the scripts and valves before it stay in force; fix it and run: valvehouse apply, or valvehouse rollback GENERATION"
            }
        };
        Diagnostic::new(Code::GenerationRefused, "", plan.folder(Kind::Filter), self.message()).help(help)
    }
}

/// The reason for rejecting a set, and the ids of the files in it that declare themselves guards.
pub(super) struct RefusedSet {
    pub(super) why: String,
    pub(super) guards: Vec<String>,
}

impl From<String> for RefusedSet {
    fn from(why: String) -> Self {
        Self { why, guards: Vec::new() }
    }
}

impl Scripts {
    /// Reads a set. It is rejected if its signature does not meet the plan, or this host cannot run it.
    pub(super) fn open(set: &ScriptSet, files: &[ScriptFile], plan: &Plan) -> Result<Self, RefusedSet> {
        let manifest = SetManifest::parse(&set.manifest).map_err(|error| error.to_string())?;
        if let Some(key) = &plan.public_key {
            check_signature(&set.manifest, set.signature.as_deref(), key).map_err(|why| why.to_string())?;
        }
        manifest.check(files).map_err(|error| error.to_string())?;
        if version_number(&manifest.needs) > version_number(VERSION) {
            let why = format!(
                "it needs a host of version {} or later, and this host has version {VERSION}",
                manifest.needs
            );
            return Err(RefusedSet { why, guards: claims(files) });
        }
        let paths = files.iter().map(|file| {
            let place = Path::new(&file.path);
            let is_within = place.components().all(|part| matches!(part, Component::Normal(_)));
            // Each file has one path: `a//b` and `a/./b`, which mean `a/b`, are rejected.
            let is_plain = place.components().collect::<PathBuf>().as_os_str() == place.as_os_str();
            if !is_within || !is_plain {
                return Err(format!("{} is not a path within a folder", file.path));
            }
            let within = |kind: Kind| Some((kind, place.strip_prefix(kind.folder()).ok()?));
            let (kind, within) = Kind::ALL
                .into_iter()
                .find_map(within)
                .ok_or_else(|| format!("{} is not in filters/, tools/ or actions/", file.path))?;
            Ok((plan.folder(kind).join(within), file.text.clone()))
        });
        let sources = Arc::new(paths.collect::<Result<SourceSet, String>>()?);
        Ok(Self::of(set.generation, sources, plan))
    }

    /// Returns the scripts of a store without a set.
    pub(super) fn none(plan: &Plan) -> Self {
        Self::of(0, Arc::default(), plan)
    }

    fn of(generation: u64, sources: Arc<SourceSet>, plan: &Plan) -> Self {
        let found = Kind::ALL.map(|kind| Arc::new(sources.look(kind, plan.folder(kind))));
        Self { generation, sources, found }
    }

    /// Returns the guards among the files that do not run yet.
    pub(super) fn missing_guards(&self, before: &Plugins) -> Vec<String> {
        let [filters, ..] = &self.found;
        let claims = filters.files.iter().filter(|(_, read)| claims_of(&read.file.text).0);
        let runs = |id: &str| before.get(id).is_some_and(|plugin| plugin.security && plugin.script.is_some());
        claims.filter(|(id, _)| !runs(id)).map(|(id, _)| id.to_string()).collect()
    }
}

/// Returns the ids of the files that declare themselves guards.
fn claims(files: &[ScriptFile]) -> Vec<String> {
    let filters = files.iter().filter(|file| file.path.starts_with("filters/"));
    let claims = filters.filter(|file| claims_of(&file.text).0);
    claims.filter_map(|file| Some(Path::new(&file.path).file_stem()?.to_str()?.to_owned())).collect()
}

/// The reason why a signature is invalid, as a clause about the set.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SignatureError(String);

/// Checks the signature of a set's manifest with a minisign public key.
///
/// # Errors
/// Returns the reason why the signature is invalid, as a clause about the set.
pub fn check_signature(manifest: &str, signature: Option<&str>, key: &str) -> Result<(), SignatureError> {
    let error = SignatureError;
    let signature =
        signature.ok_or_else(|| error("it is not signed, and folders.public_key is set".into()))?;
    let key = PublicKey::from_base64(key)
        .map_err(|why| error(format!("invalid folders.public_key: expected a minisign public key: {why}")))?;
    // A file made with `apply --manifest > FILE` ends with a line break; the stored manifest does not.
    let line = format!("{manifest}\n");
    let verify = |signature: &Signature, text: &str| key.verify(text.as_bytes(), signature, false);
    Signature::decode(signature)
        .and_then(|signature| verify(&signature, &line).or_else(|_| verify(&signature, manifest)))
        .map_err(|why| error(format!("its signature does not match folders.public_key: {why}")))
}

/// Returns the numbers of a version for comparison.
fn version_number(text: &str) -> [u64; 3] {
    let mut numbers = text.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_: u64| numbers.next().unwrap_or(0))
}
