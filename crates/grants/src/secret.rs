//! Secrets: never shown, and best not written into the file.

use crate::file::{MAX_SECRET, read_text};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_core::text::unhex;

/// The beginning of a key of which only the SHA-256 is written down.
pub const HASHED: &str = "sha256:";

/// The length in bytes from which a secret is replaced wherever it stands.
const MIN_LENGTH: usize = 8;

/// A secret; printing it for debugging shows `***`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(extend("format" = "database", "x-form" = "URL", "pattern" = "^(postgres://|postgresql://)"))]
pub struct Secret(Arc<str>);

impl Secret {
    /// A secret of this text; spaces and line ends around it are a copying mistake and go.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// Returns `true` if there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without the secret in it. Some services repeat a wrong key in what they answer. A short one, such as the `x`
    /// or `none` that local services get, is only looked for as a word: the rest of the text stays readable.
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        if self.0.len() >= MIN_LENGTH {
            return text.replace(&*self.0, "***");
        }
        let is_inside = |c: char| c.is_alphanumeric() || c == '_';
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (at, secret) in text.match_indices(&*self.0) {
            let end = at + secret.len();
            let is_word = !text[..at].ends_with(is_inside) && !text[end..].starts_with(is_inside);
            out.push_str(&text[from..at]);
            out.push_str(if is_word { "***" } else { secret });
            from = end;
        }
        out + &text[from..]
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The source of a secret.
///
/// It is read by what uses it, when it does: `valvehouse valves set` must not fail because a
/// provider's key is not in the environment of that shell.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("format" = "secret", "x-form" = "secret"))]
pub enum SecretSource {
    /// The settings themselves.
    Literal(Secret),
    /// The environment variable of this name: `env:NAME`.
    Env(String),
    /// The content of this file, without the white space around it: `file:PATH`.
    File(PathBuf),
}

/// The reason why a secret cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretUnread {
    /// The variable is missing or empty.
    #[error("the environment variable {0} is not set; set it before the host starts, or change `env:{0}`")]
    Env(String),
    /// The file cannot be read.
    #[error("cannot read the secret from {}: {cause}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        cause: String,
    },
}

/// A text that almost names a source. As a literal, it would be the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not a source of a secret: write {right:?}; a secret that really is this text can be read from a file, \"file:PATH\""
)]
pub struct SecretSourceError {
    /// The right spelling.
    pub right: String,
}

const NO_DIGEST: &str = "must have 64 hexadecimal digits after `sha256:`; create them with `valvehouse key`";
const BLANK: &str = "is empty: write \"env:NAME\", \"file:PATH\" or the key itself, or remove it";

impl TryFrom<String> for SecretSource {
    type Error = SecretSourceError;

    fn try_from(text: String) -> Result<Self, SecretSourceError> {
        Self::parse(&text, Path::new(""))
    }
}

impl SecretSource {
    /// Reads `env:NAME`, `file:PATH` (relative to the project) or the secret itself.
    ///
    /// # Errors
    /// Returns the right spelling of a text that almost names a source, such as `ENV:NAME`, `$NAME` and `${NAME}`.
    pub fn parse(text: &str, project: &Path) -> Result<Self, SecretSourceError> {
        if let Some(right) = Self::near_miss(text) {
            return Err(SecretSourceError { right });
        }
        let text = text.trim_start();
        Ok(if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.trim().to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(project.join(path.trim()))
        } else {
            Self::Literal(Secret::new(text))
        })
    }

    /// Returns the error of a text that cannot be a secret, or the key of an endpoint.
    pub fn error(text: &str, is_key: bool) -> Option<String> {
        match Self::parse(text, Path::new("")) {
            Err(misspelled) => Some(misspelled.to_string()),
            Ok(source) if is_key && source.is_no_digest() => Some(NO_DIGEST.to_owned()),
            Ok(source) if source.is_blank() => Some(BLANK.to_owned()),
            Ok(_) => None,
        }
    }

    /// Returns the right spelling of a text that almost names a source.
    pub fn near_miss(text: &str) -> Option<String> {
        let text = text.trim_start();
        let variable = |name: &str| format!("env:{}", name.trim());
        // `env:$NAME` has the right prefix and the wrong name.
        let inner = text.strip_prefix("env:").unwrap_or(text).trim();
        let expansion = inner.strip_prefix('$').and_then(|name| {
            match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => is_variable(name).then_some(name),
                None => {
                    (is_variable(name) && !name.contains(|c: char| c.is_ascii_lowercase())).then_some(name)
                }
            }
        });
        let expansion = expansion.or_else(|| inner.strip_prefix("os.environ/"));
        if let Some(name) = expansion {
            return Some(variable(name));
        }
        let (word, rest) = text.split_once(':')?;
        match word.trim_start_matches('$').trim().to_ascii_lowercase().as_str() {
            "env" if word != "env" => Some(variable(rest)),
            "file" if word != "file" => Some(format!("file:{}", rest.trim())),
            _ => None,
        }
    }

    /// Returns `true` if it can only ever give nothing: an empty key would open every endpoint.
    fn is_blank(&self) -> bool {
        match self {
            Self::Literal(secret) => secret.is_empty(),
            Self::Env(name) => name.is_empty(),
            Self::File(_) => false,
        }
    }

    /// Returns `true` if it says that it is a digest and is none.
    fn is_no_digest(&self) -> bool {
        let Self::Literal(secret) = self else { return false };
        let digits = secret.expose().strip_prefix(HASHED);
        digits.is_some_and(|digits| unhex(digits).is_none_or(|bytes| bytes.len() != 32))
    }

    /// Reads the current value of the secret.
    ///
    /// # Errors
    /// Returns an error if its file or environment variable cannot be read.
    pub fn read(&self) -> Result<Secret, SecretUnread> {
        self.read_with(|name| std::env::var(name).ok())
    }

    /// Reads the secret with the variables of `env` instead of those of the process.
    ///
    /// # Errors
    /// Returns an error if its file or environment variable cannot be read.
    pub fn read_with(&self, env: impl Fn(&str) -> Option<String>) -> Result<Secret, SecretUnread> {
        match self {
            Self::Literal(secret) => Ok(secret.clone()),
            Self::Env(name) => match env(name).filter(|text| !text.trim().is_empty()) {
                Some(text) => Ok(Secret::new(text.trim())),
                None => Err(SecretUnread::Env(name.clone())),
            },
            Self::File(file) => {
                let unread = |cause: String| SecretUnread::File { file: file.clone(), cause };
                let text = read_text(file, MAX_SECRET).map_err(|error| unread(error.to_string()))?;
                match text.trim() {
                    "" => Err(unread("the file is empty".into())),
                    text => Ok(Secret::new(text)),
                }
            }
        }
    }
}

fn is_variable(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() > 1 && name.chars().all(is_inner) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_secret_source_is_reported_with_the_correct_spelling() {
        for (text, right) in [
            ("ENV:OPENAI_KEY", "env:OPENAI_KEY"),
            ("Env: OPENAI_KEY", "env:OPENAI_KEY"),
            ("env :OPENAI_KEY", "env:OPENAI_KEY"),
            ("$env:OPENAI_KEY", "env:OPENAI_KEY"),
            ("$OPENAI_KEY", "env:OPENAI_KEY"),
            ("${OPENAI_KEY}", "env:OPENAI_KEY"),
            (" ${openai_key}", "env:openai_key"),
            ("env:$OPENAI_KEY", "env:OPENAI_KEY"),
            ("os.environ/OPENAI_KEY", "env:OPENAI_KEY"),
            ("FILE:secrets/key", "file:secrets/key"),
        ] {
            assert_eq!(SecretSource::near_miss(text).as_deref(), Some(right), "{text}");
            assert_eq!(SecretSource::near_miss(right), None, "{right}");
        }
        for literal in
            ["sk-1", "$ecret", "$", "$1", "${a b}", "env: KEY", " env:KEY", "sha256:00", "environment:x"]
        {
            assert_eq!(SecretSource::near_miss(literal), None, "{literal}");
        }
        let source = SecretSource::parse(" env: KEY", Path::new("."));
        assert_eq!(source, Ok(SecretSource::Env("KEY".into())));
    }

    #[test]
    fn debug_output_hides_a_secret() {
        let key = Secret::from(" sk-1 \n");
        assert_eq!((key.expose(), format!("{key:?}").as_str()), ("sk-1", "***"));
        assert_eq!(key.redact("wrong key sk-1"), "wrong key ***");
        assert_eq!(Secret::from("").redact("as it is"), "as it is");
        assert_eq!(Secret::from("longer-key").redact("a_longer-keys"), "a_***s");
        let exceeds = r#"{"code": "context_length_exceeded", "key": "x"}"#;
        assert_eq!(Secret::from("x").redact(exceeds), exceeds.replace("\"x\"", "\"***\""));
    }
}
