//! Where a script named on the command line belongs: its folder of plugins, and its path as that names it.

use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_host::app;
use valvehouse_script::Kind;

/// A file or folder among plugins.
pub(super) struct Placed {
    pub(super) kind: Kind,
    /// The folder that imports are looked for in.
    pub(super) root: PathBuf,
    /// As the folder names it, however it was named here.
    pub(super) path: PathBuf,
}

impl Placed {
    pub(super) fn of(config: &Config, path: &Path) -> Self {
        Self::in_folder_of(app::kind_of(config, path), config, path)
    }

    /// The same of a file that may not be saved yet, and will have this text.
    pub(super) fn of_text(config: &Config, path: &Path, text: &str) -> Self {
        let kind = match path {
            path if path.is_file() => app::kind_of(config, path),
            path if path.starts_with(&config.folders.tools) => Kind::Tool,
            path if path.starts_with(&config.folders.filters) => Kind::Filter,
            _ => Kind::guess(text),
        };
        Self::in_folder_of(kind, config, path)
    }

    fn in_folder_of(kind: Kind, config: &Config, path: &Path) -> Self {
        let root = match kind {
            Kind::Filter => &config.folders.filters,
            Kind::Tool => &config.folders.tools,
        };
        let within = path.canonicalize().ok().zip(root.canonicalize().ok());
        let within = within.and_then(|(path, root)| Some(path.strip_prefix(root).ok()?.to_owned()));
        let (root, path) = match within {
            Some(within) => (root.clone(), root.join(within)),
            None if path.is_dir() => (path.to_owned(), path.to_owned()),
            None if path.starts_with(root) => (root.clone(), path.to_owned()),
            None => (path.parent().unwrap_or(Path::new("")).to_owned(), path.to_owned()),
        };
        Self { kind, root, path }
    }
}
