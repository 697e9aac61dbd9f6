//! The replacement text of `regex::replace`: `$1`, `${name}`, `$$`.

use super::argument::RhaiResultOf;
use super::output::Text;
use super::simulation::Spans;
use regex::Regex;

/// A replacement, its groups looked up once.
pub(super) struct Template<'a>(Vec<Piece<'a>>);

enum Piece<'a> {
    Text(&'a str),
    Group(usize),
}

impl<'a> Template<'a> {
    /// Reads a replacement for a pattern. A `$` that starts no group stands for itself.
    pub(super) fn parse(mut rest: &'a str, regex: &Regex) -> Result<Self, String> {
        let mut pieces = Vec::new();
        while let Some(at) = rest.find('$') {
            pieces.push(Piece::Text(&rest[..at]));
            rest = &rest[at + 1..];
            match reference(rest) {
                Some((group, after)) => {
                    pieces.push(Piece::Group(index(group, regex)?));
                    rest = after;
                }
                None => {
                    pieces.push(Piece::Text("$"));
                    rest = rest.strip_prefix('$').unwrap_or(rest);
                }
            }
        }
        pieces.push(Piece::Text(rest));
        Ok(Self(pieces))
    }

    /// Returns `true` if it names a group besides the whole match.
    pub(super) fn has_groups(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Group(1..)))
    }

    /// Adds the replacement for one match; a group that took no part in it is nothing.
    pub(super) fn expand(&self, text: &str, groups: &Spans, into: &mut Text) -> RhaiResultOf<()> {
        for piece in &self.0 {
            into.push(match piece {
                Piece::Text(text) => text,
                Piece::Group(index) => groups.get(*index).cloned().flatten().map_or("", |span| &text[span]),
            })?;
        }
        Ok(())
    }
}

/// The group named after a `$`, and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}');
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| text.split_at(digits))
}

fn index(group: &str, regex: &Regex) -> Result<usize, String> {
    let numbered = group.parse().ok().filter(|&index: &usize| index < regex.captures_len());
    let named = || regex.capture_names().position(|name| name == Some(group));
    numbered.or_else(named).ok_or_else(|| {
        format!("the replacement names group `{group}`, which the pattern does not have; write `$$` for a dollar sign")
    })
}
