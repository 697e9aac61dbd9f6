//! The grants of a plugin or a native tool.
//!
//! ```
//! use valvehouse_config::{GrantWord, Grants};
//! let project = std::path::Path::new("/srv/gateway");
//! let word = GrantWord::parse("http=api.example.com,other.org").unwrap();
//! let grants = word.grants(project).unwrap();
//! assert_eq!(grants.to_json(project).to_string(), r#"{"http":["api.example.com","other.org"]}"#);
//! assert_eq!(Grants::from_json(&grants.to_json(project), project).unwrap(), grants);
//! ```

use std::path::{Path, PathBuf};
use valvehouse_core::words::nearest;
use valvehouse_json::Json;

/// The parts of the world that a plugin may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Hosts, `*.example.com` included.
    pub http: Grant,
    /// Folders, as whole paths.
    pub files: Vec<PathBuf>,
    /// Programs, by name.
    pub shell: Grant,
    /// Environment variables.
    pub env: Grant,
    /// A durable map of its own.
    pub kv: bool,
    /// Models of this host.
    pub llm: bool,
    /// Tools of this host beyond those that a turn offers: names, modules, `tag:x`.
    pub tools: Grant,
}

/// The extent of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grant {
    /// Not at all.
    #[default]
    Nothing,
    /// To these only.
    Only(Vec<String>),
    /// To all of them: `true`.
    Everything,
}

/// Something that can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Requests to other hosts.
    Http,
    /// Files in folders.
    Files,
    /// Other programs.
    Shell,
    /// Environment variables.
    Env,
    /// A durable map of its own.
    Kv,
    /// Models of this host.
    Llm,
    /// Tools of this host.
    Tools,
}

impl Grants {
    /// As it is stored and shown; folders inside the project relative to it.
    pub fn to_json(&self, project: &Path) -> Json {
        let json = Json::object();
        for capability in Capability::ALL {
            let value = match capability {
                Capability::Http => self.http.to_json(),
                Capability::Shell => self.shell.to_json(),
                Capability::Env => self.env.to_json(),
                Capability::Files => list(self.files.iter().map(|folder| near(folder, project))),
                Capability::Kv => self.kv.then_some(true.into()),
                Capability::Llm => self.llm.then_some(true.into()),
                Capability::Tools => self.tools.to_json(),
            };
            if let Some(value) = value {
                // A fresh object takes any key.
                json.edit(capability.name(), value);
            }
        }
        json
    }

    /// The grants of either.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        Self {
            http: self.http.merge(&other.http),
            files: union(&self.files, &other.files),
            shell: self.shell.merge(&other.shell),
            env: self.env.merge(&other.env),
            kv: self.kv || other.kv,
            llm: self.llm || other.llm,
            tools: self.tools.merge(&other.tools),
        }
    }

    /// Returns `true` if nothing at all is granted.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Grant {
    /// Returns `true` if there is no grant at all.
    pub fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }

    /// The grants of either.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Nothing, grant) | (grant, Self::Nothing) => grant.clone(),
            (Self::Only(one), Self::Only(two)) => Self::Only(union(one, two)),
        }
    }

    fn to_json(&self) -> Option<Json> {
        match self {
            Self::Nothing => None,
            Self::Only(names) => list(names.iter().cloned()),
            Self::Everything => Some(true.into()),
        }
    }
}

impl Capability {
    /// All there are.
    pub const ALL: [Self; 7] =
        [Self::Http, Self::Files, Self::Shell, Self::Env, Self::Kv, Self::Llm, Self::Tools];

    /// The name of the capability.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Files => "files",
            Self::Shell => "shell",
            Self::Env => "env",
            Self::Kv => "kv",
            Self::Llm => "llm",
            Self::Tools => "tools",
        }
    }

    /// The one of that name; else what was probably meant.
    pub fn named(word: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name);
        Self::ALL.into_iter().find(|capability| capability.name() == word).ok_or_else(|| {
            let hint = match nearest(word, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", names().join(", ")),
            };
            format!("`{word}` is not a capability; {hint}")
        })
    }

    /// The meaning of a grant without names; `None` where that is nothing special.
    pub const fn whole(self) -> Option<&'static str> {
        match self {
            Self::Http => Some("reach every public host"),
            Self::Shell => Some("run every program, as this user and with all that this user may do"),
            Self::Env => Some("read every environment variable, keys and passwords included"),
            Self::Tools => Some("call every tool of this host, also those that a turn does not offer"),
            Self::Files | Self::Kv | Self::Llm => None,
        }
    }
}

/// A folder relative to the project, when it lies inside.
pub(super) fn near(folder: &Path, project: &Path) -> String {
    match folder.strip_prefix(project) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        // Else it would read as somebody's home when it is read again.
        Ok(inside) if inside.starts_with("~") || inside.to_string_lossy().starts_with('~') => {
            format!("./{}", inside.display())
        }
        Ok(inside) => inside.display().to_string(),
        Err(_) => folder.display().to_string(),
    }
}

fn list(names: impl Iterator<Item = String>) -> Option<Json> {
    let names: Vec<Json> = names.map(Json::from).collect();
    if names.is_empty() { None } else { Some(names.into()) }
}

/// The elements of either, in order, each once.
pub(super) fn union<T: Clone + PartialEq>(one: &[T], two: &[T]) -> Vec<T> {
    let mut all: Vec<T> = Vec::with_capacity(one.len() + two.len());
    for item in one.iter().chain(two) {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}
