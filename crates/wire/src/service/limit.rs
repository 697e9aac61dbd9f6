//! Limits of names and ids, and the shortening of those beyond them.

use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// The letters of a digest that ends a shortened text.
const DIGEST: usize = 10;

/// The characters that a text may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    Any,
    /// `a-z`, `A-Z`, `0-9`.
    Plain,
    /// The same, `_` and `-`.
    Word,
    /// The same, `.` and `:`.
    Dotted,
    /// Neither white space nor `< | \ / >`.
    NoMarkup,
}

/// The limits of a name or an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextLimit {
    pub(super) letters: Letters,
    /// The least and the most characters.
    pub(super) least: usize,
    pub(super) most: usize,
    /// Set if the first character must be a letter or, in names of [`Letters::Dotted`], `_`.
    pub(super) starts_with_letter: bool,
    /// Set if the text must not be a mail address or a phone number.
    pub(super) is_opaque: bool,
}

impl TextLimit {
    /// A text of at most this many characters.
    pub(super) const fn most(most: usize, letters: Letters) -> Self {
        Self { letters, least: 0, most, starts_with_letter: false, is_opaque: false }
    }

    pub(super) const fn exactly(self) -> Self {
        Self { least: self.most, ..self }
    }

    pub(super) const fn after_a_letter(self) -> Self {
        Self { starts_with_letter: true, ..self }
    }

    pub(super) const fn opaque(self) -> Self {
        Self { is_opaque: true, ..self }
    }

    /// Returns `true` if a service takes the text. An empty text has no repair here and counts as taken.
    pub(super) fn fits(&self, text: &str) -> bool {
        // Bytes are at least as many as characters.
        let is_short = text.len() <= self.most || text.chars().count() <= self.most;
        text.is_empty()
            || (is_short
                && (self.least == 0 || text.chars().count() >= self.least)
                && (self.letters == Letters::Any || text.chars().all(|letter| self.letters.have(letter)))
                && text.chars().next().is_none_or(|first| self.may_start(first))
                && !(self.is_opaque && (has_mail_address(text) || is_phone_number(text))))
    }

    fn may_start(&self, first: char) -> bool {
        !self.starts_with_letter
            || first.is_ascii_alphabetic()
            || (self.letters == Letters::Dotted && first == '_')
    }

    /// Returns a text within the limits: the same for the same text, and another one for each text. `attempt`
    /// counts the results that were in use already.
    pub(super) fn shorten(&self, text: &str, attempt: usize) -> String {
        let mut digest = Sha256::new_with_prefix(text);
        if attempt > 0 {
            digest.update(format!("\0{attempt}"));
        }
        let digest = digest.finalize();
        if self.least > 0 {
            // No room for a readable start.
            return digest
                .iter()
                .take(self.most)
                .map(|byte| char::from(SMALL[usize::from(byte % 36)]))
                .collect();
        }
        let mut end = String::new();
        for byte in digest.iter().take(DIGEST / 2) {
            // Writing to a string cannot fail.
            let _ = write!(end, "{byte:02x}");
        }
        if self.is_opaque {
            return format!("user_{end}");
        }
        let room = self.most.saturating_sub(DIGEST + 1);
        let letters = (0..room).zip(text.chars());
        let mut start: String = letters.map(|(_, letter)| self.letters.similar(letter)).collect();
        if start.chars().next().is_some_and(|first| !self.may_start(first)) {
            start = std::iter::once('t').chain(start.chars().skip(1)).collect();
        }
        format!("{start}_{end}")
    }
}

const SMALL: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

impl Letters {
    fn have(self, letter: char) -> bool {
        match self {
            Self::Any => true,
            Self::Plain => letter.is_ascii_alphanumeric(),
            Self::Word => letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'),
            Self::Dotted => letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | ':'),
            Self::NoMarkup => !letter.is_whitespace() && !matches!(letter, '<' | '|' | '\\' | '/' | '>'),
        }
    }

    fn similar(self, letter: char) -> char {
        if self.have(letter) { letter } else { '_' }
    }
}

fn has_mail_address(text: &str) -> bool {
    text.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '<' | '>' | ',' | ';')).any(
        |word| {
            word.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && host.split_once('.').is_some_and(|(_, end)| !end.is_empty())
            })
        },
    )
}

/// Returns `true` for digits with a leading `+` or separators between them. Digits alone are ids.
fn is_phone_number(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_separator = |letter: char| matches!(letter, '+' | ' ' | '(' | ')' | '-');
    (7..=15).contains(&digits)
        && text.chars().all(|letter| letter.is_ascii_digit() || is_separator(letter))
        && text.contains(is_separator)
}

impl fmt::Display for TextLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0, most) => write!(f, "at most {most} characters")?,
            (_, most) => write!(f, "exactly {most} characters")?,
        }
        f.write_str(match self.letters {
            Letters::Any => "",
            Letters::Plain => " of `a-z A-Z 0-9`",
            Letters::Word => " of `a-z A-Z 0-9 _ -`",
            Letters::Dotted => " of `a-z A-Z 0-9 _ - . :`",
            Letters::NoMarkup => " without white space and `< | \\ / >`",
        })?;
        if self.starts_with_letter {
            f.write_str(", a letter first")?;
        }
        f.write_str(if self.is_opaque { ", no mail address or phone number" } else { "" })
    }
}
