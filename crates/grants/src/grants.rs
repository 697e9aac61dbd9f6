//! The grants of a plugin or a native tool.
//!
//! ```
//! use valvehouse_grants::{GrantWord, Grants};
//! let project = std::path::Path::new("/srv/gateway");
//! let word = GrantWord::parse("http=api.example.com,other.org").unwrap();
//! let grants = word.grants(project).unwrap();
//! assert_eq!(grants.to_json(project).to_string(), r#"{"http":["api.example.com","other.org"]}"#);
//! assert_eq!(Grants::from_json(&grants.to_json(project), project).unwrap(), grants);
//! ```
//!
//! The words in which grants are written: on the command line, in `valvehouse.toml`, in the store.

use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use valvehouse_core::text::nearest;
use valvehouse_json::Json;

/// The parts of the world that a plugin may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Grants {
    /// Hosts; `true` is all public ones. Private addresses must be named literally.
    #[schemars(extend("x-form" = "true, false or list of hosts", "default" = false, "examples" = [["api.example.com", "*.example.org"]]))]
    pub http: Grant,
    /// Folders, relative to the project or absolute.
    #[schemars(extend("items" = {"type": "string", "format": "folder"}, "x-form" = "list of folders", "default" = [], "examples" = [["data"]]))]
    pub files: Vec<PathBuf>,
    /// Programs that it can run.
    #[schemars(extend("x-form" = "true, false or list of programs", "default" = false, "examples" = [["git"]]))]
    pub shell: Grant,
    /// Environment variables.
    #[schemars(extend("x-form" = "true, false or list of names", "default" = false, "examples" = [["LANG"]]))]
    pub env: Grant,
    /// A durable key-value store; the declaration in the script grants it.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub kv: bool,
    /// Models of this host; the declaration in the script grants them.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub llm: bool,
    /// Tools of this host in addition to those of the turn: names, scripts, `tag:x`.
    #[schemars(extend("x-form" = "true, false or list of tools", "default" = false, "examples" = [["weather"]]))]
    pub tools: Grant,
    /// Stored vectors of its own; the declaration in the script grants them.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub vectors: bool,
    /// The memories of the user of a request.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub memories: bool,
    /// The stored conversations of the user of a request, read only.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub chats: bool,
}

/// The extent of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "GrantForm")]
#[schemars(with = "GrantForm")]
pub enum Grant {
    /// Not at all.
    #[default]
    Nothing,
    /// To these only.
    Only(Vec<String>),
    /// To all of them: `true`.
    Everything,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum GrantForm {
    Whole(bool),
    Names(#[schemars(extend("items" = {"type": "string", "format": "grant"}))] Vec<String>),
}

impl From<GrantForm> for Grant {
    fn from(form: GrantForm) -> Self {
        match form {
            GrantForm::Whole(true) => Self::Everything,
            GrantForm::Names(names) if !names.is_empty() => Self::Only(names),
            GrantForm::Whole(false) | GrantForm::Names(_) => Self::Nothing,
        }
    }
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
    /// Stored vectors of its own.
    Vectors,
    /// The memories of the users that it acts for.
    Memories,
    /// The stored conversations of the users that it acts for.
    Chats,
}

/// The value of a capability in grants.
enum Part<'g> {
    Flag(&'g mut bool),
    Names(&'g mut Grant),
    Folders(&'g mut Vec<PathBuf>),
}

impl Grants {
    fn part(&mut self, capability: Capability) -> Part<'_> {
        match capability {
            Capability::Http => Part::Names(&mut self.http),
            Capability::Files => Part::Folders(&mut self.files),
            Capability::Shell => Part::Names(&mut self.shell),
            Capability::Env => Part::Names(&mut self.env),
            Capability::Kv => Part::Flag(&mut self.kv),
            Capability::Llm => Part::Flag(&mut self.llm),
            Capability::Tools => Part::Names(&mut self.tools),
            Capability::Vectors => Part::Flag(&mut self.vectors),
            Capability::Memories => Part::Flag(&mut self.memories),
            Capability::Chats => Part::Flag(&mut self.chats),
        }
    }

    /// As it is stored and shown; folders inside the project relative to it.
    pub fn to_json(&self, project: &Path) -> Json {
        let (json, mut own) = (Json::object(), self.clone());
        for capability in Capability::ALL {
            let value = match own.part(capability) {
                Part::Flag(flag) => flag.then_some(true.into()),
                Part::Names(grant) => grant.to_json(),
                Part::Folders(folders) => list(folders.iter().map(|folder| near(folder, project))),
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
            vectors: self.vectors || other.vectors,
            memories: self.memories || other.memories,
            chats: self.chats || other.chats,
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
    pub const ALL: [Self; 10] = [
        Self::Http,
        Self::Files,
        Self::Shell,
        Self::Env,
        Self::Kv,
        Self::Llm,
        Self::Tools,
        Self::Vectors,
        Self::Memories,
        Self::Chats,
    ];

    /// The names, in the order of [`Capability::ALL`].
    const NAMES: [&str; 10] =
        ["http", "files", "shell", "env", "kv", "llm", "tools", "vectors", "memories", "chats"];

    /// The name of the capability.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the capability with this name.
    ///
    /// # Errors
    /// Returns [`GrantError::UnknownCapability`], which suggests a similar name or lists the known ones.
    pub fn from_name(word: &str) -> Result<Self, GrantError> {
        Self::ALL.into_iter().find(|capability| capability.name() == word).ok_or_else(|| {
            let hint = match nearest(word, Self::NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known names: {}", Self::NAMES.join(", ")),
            };
            GrantError::UnknownCapability(format!("unknown capability `{word}`; {hint}"))
        })
    }

    /// The use that a plugin may make of a grant.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Http => "send requests to named hosts",
            Self::Files => "read and write the files in named folders",
            Self::Shell => "run named programs, as the user of the host and with all that this user may do",
            Self::Env => "read named environment variables",
            Self::Kv => "store values of its own",
            Self::Llm => "call the models of this host",
            Self::Tools => "call named tools, in addition to those of the turn",
            Self::Vectors => "store vectors of its own",
            Self::Memories => "read and change the memories of the users for whom it runs",
            Self::Chats => "read the stored conversations of the users for whom it runs",
        }
    }

    /// The kind of the names of a grant; `None` where a grant has no names.
    pub const fn names(self) -> Option<&'static str> {
        match self {
            Self::Http => Some("hosts"),
            Self::Files => Some("folders"),
            Self::Shell => Some("programs"),
            Self::Env => Some("variables"),
            Self::Tools => Some("tools"),
            Self::Kv | Self::Llm | Self::Vectors | Self::Memories | Self::Chats => None,
        }
    }

    /// The meaning of a grant without names; `None` where that is nothing special.
    pub const fn whole(self) -> Option<&'static str> {
        match self {
            Self::Http => Some("reach every public host"),
            Self::Shell => Some("run every program, as this user and with all that this user may do"),
            Self::Env => Some("read every environment variable, keys and passwords included"),
            Self::Tools => Some("call every tool of this host, also those that a turn does not offer"),
            Self::Files | Self::Kv | Self::Llm | Self::Vectors | Self::Memories | Self::Chats => None,
        }
    }
}

/// A folder relative to the project, when it lies inside.
fn near(folder: &Path, project: &Path) -> String {
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
fn union<T: Clone + PartialEq>(one: &[T], two: &[T]) -> Vec<T> {
    let mut all: Vec<T> = Vec::with_capacity(one.len() + two.len());
    for item in one.iter().chain(two) {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

/// One word of a command line: `http`, `http=api.example.com,other.org`, `files=data`, `llm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantWord {
    /// The capability.
    pub capability: Capability,
    /// The parts of it that are granted; empty where the word names none.
    pub names: Vec<String>,
}

impl Grants {
    /// Reads a stored grant: an object with a list or `true` for each capability. Relative folders are relative to
    /// the project.
    ///
    /// # Errors
    /// Returns every invalid part of the grant, as [`GrantError::Several`].
    pub fn from_json(stored: &Json, project: &Path) -> Result<Self, GrantError> {
        let Some(object) = stored.as_object() else {
            let why = format!("invalid grants: expected an object, got {}", stored.kind());
            return Err(GrantError::InvalidNames(why));
        };
        let (mut grants, mut wrong) = (Self::default(), Vec::new());
        for (key, value) in object.entries() {
            let one = Capability::from_name(&key).and_then(|capability| {
                let word = GrantWord::from_json(capability, &value);
                word.map_err(|why| GrantError::InvalidNames(format!("{key} {why}")))?
                    .map_or(Ok(Self::default()), |word| word.grants(project))
            });
            match one {
                Ok(one) => grants = grants.merge(&one),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() { Ok(grants) } else { Err(GrantError::Several(wrong)) }
    }

    /// Returns the grants that remain when a capability, or a part of it, is revoked.
    ///
    /// # Errors
    /// Returns [`GrantError::NotGranted`] if the grants do not contain the part.
    pub fn without(&self, word: &GrantWord, project: &Path) -> Result<Self, GrantError> {
        let mut left = self.clone();
        match left.part(word.capability) {
            Part::Flag(flag) => *flag = false,
            Part::Names(grant) => *grant = grant.without(word)?,
            Part::Folders(folders) if word.names.is_empty() => folders.clear(),
            Part::Folders(folders) => {
                let gone = word.folders(project)?;
                if let Some(other) = gone.iter().find(|folder| !folders.contains(folder)) {
                    let why = format!("files={} is not granted", near(other, project));
                    return Err(GrantError::NotGranted(why));
                }
                folders.retain(|folder| !gone.contains(folder));
            }
        }
        Ok(left)
    }
}

impl Grant {
    fn without(&self, word: &GrantWord) -> Result<Self, GrantError> {
        let name = word.capability.name();
        match self {
            _ if word.names.is_empty() => Ok(Self::Nothing),
            Self::Everything => Err(GrantError::NotGranted(format!(
                "`{name}` is granted without a list: revoke `{name}`, then grant the names that remain allowed"
            ))),
            grant => {
                let own = if let Self::Only(own) = grant { own.as_slice() } else { &[] };
                if let Some(other) = word.names.iter().find(|name| !own.contains(name)) {
                    return Err(GrantError::NotGranted(format!("{name}={other} is not granted")));
                }
                let left: Vec<String> =
                    own.iter().filter(|name| !word.names.contains(name)).cloned().collect();
                Ok(if left.is_empty() { Self::Nothing } else { Self::Only(left) })
            }
        }
    }
}

impl GrantWord {
    /// Reads a word of a grant, such as `http=api.example.com`.
    ///
    /// # Errors
    /// Returns the reason if the capability is unknown or its value is invalid.
    pub fn parse(word: &str) -> Result<Self, GrantError> {
        let (name, names) = match word.split_once('=') {
            None => (word, Vec::new()),
            Some((name, names)) => (name, names.split(',').map(|name| name.trim().to_owned()).collect()),
        };
        let capability = Capability::from_name(name.trim())?;
        let word = Self { capability, names };
        word.check()
            .map(|()| word)
            .map_err(|why| GrantError::InvalidNames(format!("{} {why}", capability.name())))
    }

    /// The value behind a capability in a stored grant; none where it is `false`.
    fn from_json(capability: Capability, value: &Json) -> Result<Option<Self>, String> {
        let names = match value {
            Json::Null | Json::Bool(false) => return Ok(None),
            Json::Bool(true) => Vec::new(),
            Json::Array(items) if items.is_empty() => return Ok(None),
            Json::Array(items) => items
                .items()
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or("must be a list of strings")?,
            other => return Err(format!("must be true, false or a list, not {}", other.kind())),
        };
        let word = Self { capability, names };
        word.check().map(|()| Some(word))
    }

    fn check(&self) -> Result<(), String> {
        match Grants::default().part(self.capability) {
            Part::Flag(_) if !self.names.is_empty() => {
                Err(format!("takes no list: write `{}`", self.capability.name()))
            }
            _ => self.names.iter().try_for_each(|text| name(text)),
        }
    }

    /// Returns the grants that the word stands for.
    ///
    /// # Errors
    /// Returns the reason if the value does not fit the capability.
    pub fn grants(&self, project: &Path) -> Result<Grants, GrantError> {
        let mut grants = Grants::default();
        match grants.part(self.capability) {
            Part::Flag(flag) => *flag = true,
            Part::Names(grant) => *grant = self.grant(),
            Part::Folders(_) if self.names.is_empty() => {
                let why = "files needs a folder: write `files=data`, with commas between several";
                return Err(GrantError::InvalidNames(why.to_owned()));
            }
            Part::Folders(folders) => *folders = self.folders(project)?,
        }
        Ok(grants)
    }

    fn grant(&self) -> Grant {
        if self.names.is_empty() { Grant::Everything } else { Grant::Only(union(&[], &self.names)) }
    }

    fn folders(&self, project: &Path) -> Result<Vec<PathBuf>, GrantError> {
        let folders = self.names.iter().map(|name| folder(name, project));
        let folders: Vec<PathBuf> = folders
            .collect::<Result<_, _>>()
            .map_err(|why| GrantError::InvalidNames(format!("files {why}")))?;
        Ok(union(&[], &folders))
    }
}

/// Returns the problem with the name of anything that is granted, as the end of a sentence about its setting.
pub fn misnamed(text: &str, is_folder: bool) -> Option<String> {
    if is_folder { folder(text, Path::new("")).err() } else { name(text).err() }
}

/// Returns the whole path of a folder as somebody names it.
fn folder(text: &str, project: &Path) -> Result<PathBuf, String> {
    name(text)?;
    if text.starts_with('~') {
        let help = "write an absolute path, or one relative to the project (./~ for a folder of that name)";
        return Err(format!("names {text:?}: `~` is not expanded here; {help}"));
    }
    // Not to be compared letter by letter: `data`, `./data` and `data/` are one folder.
    Ok(project.join(text).components().collect())
}

/// Checks that this can be the name of anything that is granted.
fn name(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("has an empty name in its list".to_owned());
    }
    if text.contains(char::is_control) {
        return Err(format!("names {text:?}, which contains control characters"));
    }
    if text == "*" {
        return Err(
            "names `*`; to grant everything, write the capability alone, without `=`, or true".to_owned()
        );
    }
    Ok(())
}

/// The error of a grant that cannot be read, given or revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The capability is unknown.
    #[error("{0}")]
    UnknownCapability(String),
    /// The names of the grant do not fit its capability.
    #[error("{0}")]
    InvalidNames(String),
    /// The capability, or a part of it, is not granted, so that it cannot be revoked.
    #[error("{0}")]
    NotGranted(String),
    /// Several parts of a stored grant are invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "/srv/gateway";

    fn of(word: &str) -> Result<Grants, GrantError> {
        GrantWord::parse(word)?.grants(Path::new(PROJECT))
    }

    fn json(grants: &Grants) -> String {
        grants.to_json(Path::new(PROJECT)).to_string()
    }

    #[test]
    fn a_grant_argument_is_parsed() {
        for (word, expected) in [
            ("http", r#"{"http":true}"#),
            ("http=api.example.com, other.org", r#"{"http":["api.example.com","other.org"]}"#),
            ("shell=git,git", r#"{"shell":["git"]}"#),
            ("env=HOME", r#"{"env":["HOME"]}"#),
            ("kv", r#"{"kv":true}"#),
            ("llm", r#"{"llm":true}"#),
            ("tools", r#"{"tools":true}"#),
            ("memories", r#"{"memories":true}"#),
            ("chats", r#"{"chats":true}"#),
            ("tools=weather,tag:shop", r#"{"tools":["weather","tag:shop"]}"#),
            ("files=data,./data/,notes", r#"{"files":["data","notes"]}"#),
            ("files=/srv/gateway/data,/other,.", r#"{"files":["data","/other","."]}"#),
            ("files=./~odd", r#"{"files":["./~odd"]}"#),
        ] {
            let grants = of(word).unwrap();
            assert_eq!(json(&grants), expected, "{word}");
            let again = Grants::from_json(&grants.to_json(Path::new(PROJECT)), Path::new(PROJECT));
            assert_eq!(again.unwrap(), grants, "{word}");
        }
    }

    #[test]
    fn an_unknown_grant_is_an_error_with_the_nearest_name() {
        for (word, expected) in [
            ("htpp", "unknown capability `htpp`; did you mean `http`?"),
            ("colour=1", "known names: http, files, shell, env, kv, llm, tools, vectors, memories, chats"),
            ("files", "files needs a folder"),
            ("files=", "files has an empty name"),
            ("files=data,", "files has an empty name"),
            ("files=~/notes", "`~` is not expanded here"),
            ("files=a\0b", "control characters"),
            ("http=*", "write the capability alone"),
            ("tools=*", "write the capability alone"),
            ("kv=x", "kv takes no list: write `kv`"),
        ] {
            let why = of(word).unwrap_err().to_string();
            assert!(why.contains(expected), "{word}: {why}");
        }
    }

    #[test]
    fn a_merge_contains_the_grants_of_both() {
        let both = |one: &str, two: &str| json(&of(one).unwrap().merge(&of(two).unwrap()));
        assert_eq!(both("http=a", "http=b,a"), r#"{"http":["a","b"]}"#);
        assert_eq!(both("http=a", "http"), r#"{"http":true}"#);
        assert_eq!(both("files=a", "files=b"), r#"{"files":["a","b"]}"#);
        assert_eq!(both("kv", "llm"), r#"{"kv":true,"llm":true}"#);
        assert!(Grants::default().merge(&Grants::default()).is_nothing());
    }

    #[test]
    fn revoking_a_grant_leaves_the_others() {
        let all = of("http=a,b").unwrap().merge(&of("files=x,y").unwrap()).merge(&of("kv").unwrap());
        let left =
            |word: &str| all.without(&GrantWord::parse(word)?, Path::new(PROJECT)).map(|left| json(&left));
        assert_eq!(left("http=a").unwrap(), r#"{"http":["b"],"files":["x","y"],"kv":true}"#);
        assert_eq!(left("http").unwrap(), r#"{"files":["x","y"],"kv":true}"#);
        assert_eq!(left("http=b,a").unwrap(), r#"{"files":["x","y"],"kv":true}"#);
        assert_eq!(left("files=./x").unwrap(), r#"{"http":["a","b"],"files":["y"],"kv":true}"#);
        assert_eq!(left("files").unwrap(), r#"{"http":["a","b"],"kv":true}"#);
        assert_eq!(left("kv").unwrap(), r#"{"http":["a","b"],"files":["x","y"]}"#);
        assert_eq!(left("http=c").unwrap_err().to_string(), "http=c is not granted");
        assert_eq!(left("files=z").unwrap_err().to_string(), "files=z is not granted");
        let whole = of("shell").unwrap();
        let word = GrantWord::parse("shell=git").unwrap();
        assert!(
            whole
                .without(&word, Path::new(PROJECT))
                .unwrap_err()
                .to_string()
                .contains("granted without a list")
        );
    }

    #[test]
    fn all_problems_of_a_stored_grant_are_reported_at_once() {
        let read = |text: &str| Grants::from_json(&Json::parse(text.as_bytes()).unwrap(), Path::new(PROJECT));
        let wrong = read(r#"{"htp": true, "files": true, "shell": [1], "env": "HOME", "kv": ["x"]}"#);
        let wrong = wrong.unwrap_err().to_string();
        for expected in [
            "did you mean `http`?",
            "files needs a folder",
            "shell must be a list of strings",
            "env must be true",
            "kv takes no list",
        ] {
            assert!(wrong.contains(expected), "{expected} in {wrong}");
        }
        assert!(read("[]").unwrap_err().to_string().contains("expected an object"));
        assert!(read(r#"{"http": false, "files": [], "kv": null}"#).unwrap().is_nothing());
    }
}
