//! Strings that keep their spelling.

use crate::string;
use bytes::Bytes;
use compact_str::CompactString;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use valvehouse_memory as memory;

/// A string. A long one stays in the document that it came in, as it is spelt there: it is read when
/// somebody asks what it says, and can be passed on as it came.
#[derive(Clone)]
pub struct Text(Kept);

#[derive(Clone)]
enum Kept {
    Said(CompactString),
    Spelt(Arc<Spelt>),
}

struct Spelt {
    /// A string of JSON, with its quotes.
    spelling: Bytes,
    said: OnceLock<Box<str>>,
}

impl Text {
    /// A string of JSON, with its quotes, that was found to be one.
    pub(super) fn spelt(spelling: Bytes) -> Self {
        Self(Kept::Spelt(Arc::new(Spelt { spelling, said: OnceLock::new() })))
    }

    /// An empty one, before anything is known.
    pub(super) const fn empty() -> Self {
        Self(Kept::Said(CompactString::const_new("")))
    }

    /// The text, to be written there; `None` where it is spelt already.
    pub(super) fn said_mut(&mut self) -> Option<&mut CompactString> {
        match &mut self.0 {
            Kept::Said(said) => Some(said),
            Kept::Spelt(_) => None,
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Said(said) => said,
            // What a script reads of a body is the body's, and no memory of the script's.
            Kept::Spelt(spelt) => {
                spelt.said.get_or_init(|| memory::uncounted(|| string::said(&spelt.spelling)))
            }
        }
    }

    /// Returns `true` if it says nothing.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kept::Said(said) => said.is_empty(),
            Kept::Spelt(spelt) => spelt.spelling.len() <= 2,
        }
    }

    /// About how many bytes it takes: of one that nobody has read yet, to spell.
    pub(super) fn weight(&self) -> usize {
        match &self.0 {
            Kept::Said(said) => said.len(),
            Kept::Spelt(spelt) => spelt.spelling.len() + spelt.said.get().map_or(0, |said| said.len()),
        }
    }

    /// As it is spelt in the document that it came in.
    pub(super) fn spelling(&self) -> Option<&Bytes> {
        match &self.0 {
            Kept::Said(_) => None,
            Kept::Spelt(spelt) => Some(&spelt.spelling),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kept::Spelt(one), Kept::Spelt(other)) if Arc::ptr_eq(one, other) => true,
            _ => self.as_str() == other.as_str(),
        }
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl From<&str> for Text {
    fn from(said: &str) -> Self {
        Self(Kept::Said(said.into()))
    }
}

impl From<String> for Text {
    fn from(said: String) -> Self {
        Self(Kept::Said(said.into()))
    }
}

impl From<CompactString> for Text {
    fn from(said: CompactString) -> Self {
        Self(Kept::Said(said))
    }
}

impl From<Text> for CompactString {
    fn from(text: Text) -> Self {
        match text.0 {
            Kept::Said(said) => said,
            Kept::Spelt(_) => text.as_str().into(),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text.0 {
            Kept::Said(said) => said.into_string(),
            Kept::Spelt(_) => text.as_str().to_owned(),
        }
    }
}
