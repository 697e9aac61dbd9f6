//! A folder of scripts: its files as a set, and the settings with which it is read.

use std::path::{Path, PathBuf};
use valvehouse_config::{Config, ScriptSource};
use valvehouse_host::app;
use valvehouse_script::{Kind, Loader};
use valvehouse_store::{MAX_SCRIPT_SET_SIZE, ScriptFile, ScriptSet, Store};
use valvehouse_terminal::{CommandError, files};

/// A folder with `filters/`, `tools/` and `actions/`; without a name, the configured folders.
pub(super) struct ScriptFolder {
    folders: [PathBuf; 3],
}

impl ScriptFolder {
    pub(super) fn of(named: Option<&Path>, config: &Config) -> Self {
        let folders = match named {
            Some(folder) => Kind::ALL.map(|kind| config.project.join(folder).join(kind.folder())),
            None => app::folders_of(config).map(|(_, folder)| folder.to_owned()),
        };
        Self { folders }
    }

    /// Returns an existing folder, or an error.
    pub(super) fn existing(named: Option<&Path>, config: &Config) -> Result<Self, CommandError> {
        let folder = Self::of(named, config);
        if folder.folders.iter().all(|folder| !folder.is_dir()) {
            let [filters, tools, actions] = folder.folders.each_ref().map(|folder| folder.display());
            return Err(CommandError::usage(format!(
                "cannot read the scripts: none of {filters}, {tools} and {actions} exists; name the folder that contains them"
            )));
        }
        Ok(folder)
    }

    /// Returns the settings of a project with the scripts of this folder.
    pub(super) fn settings(&self, config: &Config) -> Config {
        let mut config = config.clone();
        [config.folders.filters, config.folders.tools, config.folders.actions] = self.folders.clone();
        config.folders.source = ScriptSource::Folder;
        config
    }

    /// Returns scripts, modules and tests, sorted by path.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or if their total size is too large.
    pub(super) fn files(&self) -> Result<Vec<ScriptFile>, CommandError> {
        let mut files = Vec::new();
        for (kind, folder) in Kind::ALL.into_iter().zip(&self.folders) {
            let name = kind.folder();
            let found = Loader::default().look(kind, folder);
            let unlisted = found.problems.iter().find(|problem| found.unlisted.contains(&problem.path));
            if let Some(problem) = unlisted {
                return Err(CommandError::data(problem.to_string()));
            }
            let scripts = found.files.values().chain(&found.shadowed).map(|read| &read.file.path);
            let unread = found.problems.iter().map(|problem| &problem.path).filter(|path| path.is_file());
            let mut paths: Vec<&PathBuf> =
                scripts.chain(unread).chain(&found.modules).chain(&found.tests).collect();
            paths.sort();
            paths.dedup();
            for path in paths {
                let text = files::read_text(path, MAX_SCRIPT_SET_SIZE)?;
                let within = path.strip_prefix(folder).unwrap_or(path);
                let parts: Vec<_> = within.iter().map(|part| part.to_string_lossy()).collect();
                files.push(ScriptFile { path: format!("{name}/{}", parts.join("/")), text: text.into() });
            }
        }
        let size: usize = files.iter().map(|file| file.text.len()).sum();
        if size > MAX_SCRIPT_SET_SIZE {
            return Err(CommandError::data(format!(
                "cannot store the scripts: their {} MB exceed the limit of {} MB",
                size >> 20,
                MAX_SCRIPT_SET_SIZE >> 20
            )));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Returns the path here of a file in a set; `None` if it belongs to none of the folders.
    pub(super) fn place(&self, path: &str) -> Option<PathBuf> {
        let (part, within) = path.split_once('/')?;
        let folder = Kind::ALL.iter().position(|kind| kind.folder() == part)?;
        let is_within =
            Path::new(within).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_within.then(|| self.folders[folder].join(within))
    }
}

/// Returns the changed files of two sets, as path, text before and text after.
pub(super) fn changes<'a>(
    before: &'a [ScriptFile],
    after: &'a [ScriptFile],
) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
    let text = |files: &'a [ScriptFile], path: &str| {
        files.iter().find(|file| file.path == path).map(|file| &*file.text)
    };
    let mut paths: Vec<&str> = before.iter().chain(after).map(|file| &*file.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let all = paths.into_iter().map(|path| (path, text(before, path), text(after, path)));
    all.filter(|(_, before, after)| before != after).collect()
}

/// Returns the set of a generation, or the latest one, with its files.
///
/// # Errors
/// Returns an error if the store has no such set.
pub(super) async fn stored(
    store: &Store,
    generation: Option<u64>,
) -> Result<(ScriptSet, Vec<ScriptFile>), CommandError> {
    let sets = store.script_sets().await?;
    let set = match generation {
        None => sets.first(),
        Some(generation) => sets.iter().find(|set| set.generation == generation),
    };
    let Some(set) = set else { return Err(unknown(&sets, generation)) };
    Ok((set.clone(), store.script_files(set.generation).await?))
}

/// Returns the error for a set that does not exist.
pub(super) fn unknown(sets: &[ScriptSet], generation: Option<u64>) -> CommandError {
    let known: Vec<String> = sets.iter().take(20).map(|set| set.generation.to_string()).collect();
    CommandError::usage(match (generation, known.is_empty()) {
        (_, true) => "the store has no scripts yet: valvehouse apply DIR".to_owned(),
        (Some(generation), _) => {
            format!(
                "the store has no scripts of generation {generation}; stored generations: {}",
                known.join(", ")
            )
        }
        (None, _) => "the store has no scripts".to_owned(),
    })
}
