//! Strings that preserve their spelling.

use crate::string;
use bytes::Bytes;
use compact_str::CompactString;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use valvehouse_memory as memory;

/// A string. A long string stays in its document in raw form: it is decoded on first access and can be written
/// unchanged.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Plain(CompactString),
    Raw(Arc<Spelling>),
}

struct Spelling {
    /// The raw JSON string, including its quotes.
    spelling: Bytes,
    text: OnceLock<Box<str>>,
}

impl Text {
    /// Creates a text from a verified raw JSON string, including its quotes.
    pub(super) fn raw(spelling: Bytes) -> Self {
        Self(Repr::Raw(Arc::new(Spelling { spelling, text: OnceLock::new() })))
    }

    /// Creates an empty text, to be filled later.
    pub(super) const fn empty() -> Self {
        Self(Repr::Plain(CompactString::const_new("")))
    }

    /// Returns the text for writing; `None` if it is raw.
    pub(super) fn plain_mut(&mut self) -> Option<&mut CompactString> {
        match &mut self.0 {
            Repr::Plain(text) => Some(text),
            Repr::Raw(_) => None,
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Plain(text) => text,
            // The memory of a body's text is charged to the body and not to the script that reads it.
            Repr::Raw(raw) => raw.text.get_or_init(|| memory::uncounted(|| string::decode(&raw.spelling))),
        }
    }

    /// Returns `true` if the text is empty.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Repr::Plain(text) => text.is_empty(),
            Repr::Raw(raw) => raw.spelling.len() <= 2,
        }
    }

    /// Returns the approximate size in bytes; for an undecoded text, that of its raw form.
    pub(super) fn size_estimate(&self) -> usize {
        match &self.0 {
            Repr::Plain(text) => text.len(),
            Repr::Raw(raw) => raw.spelling.len() + raw.text.get().map_or(0, |text| text.len()),
        }
    }

    /// Returns the raw form in the document, if any.
    pub(super) fn spelling(&self) -> Option<&Bytes> {
        match &self.0 {
            Repr::Plain(_) => None,
            Repr::Raw(raw) => Some(&raw.spelling),
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
            (Repr::Raw(one), Repr::Raw(other)) if Arc::ptr_eq(one, other) => true,
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
    fn from(text: &str) -> Self {
        Self(Repr::Plain(text.into()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Repr::Plain(text.into()))
    }
}

impl From<CompactString> for Text {
    fn from(text: CompactString) -> Self {
        Self(Repr::Plain(text))
    }
}

impl From<Text> for CompactString {
    fn from(text: Text) -> Self {
        match text.0 {
            Repr::Plain(text) => text,
            Repr::Raw(_) => text.as_str().into(),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text.0 {
            Repr::Plain(text) => text.into_string(),
            Repr::Raw(_) => text.as_str().to_owned(),
        }
    }
}
