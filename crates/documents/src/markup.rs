//! Reads XML tag by tag, without building a tree.

use super::error::DocumentError;
use super::limits::bounded;

/// The maximum length of an entity's name, in bytes.
const MAX_NAME: usize = 10;

/// A part of an XML document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// A start tag: its name without prefix, its attributes, and `true` if it is self-closing.
    Start(&'a str, &'a str, bool),
    /// An end tag.
    End(&'a str),
    /// Text with unresolved entities.
    Text(&'a str),
}

/// Iterates over the parts of an XML document; skips malformed parts.
pub(crate) fn parts(xml: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let Some(inner) = rest.strip_prefix('<') else {
                let end = rest.find('<').unwrap_or(rest.len());
                let (text, behind) = rest.split_at(end);
                rest = behind;
                return Some(Part::Text(text));
            };
            if let Some(data) = inner.strip_prefix("![CDATA[") {
                let (_, behind) = data.split_once("]]>").unwrap_or((data, ""));
                rest = behind;
                continue;
            }
            if let Some(comment) = inner.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
                continue;
            }
            let (tag, behind) = inner.split_once('>').unwrap_or((inner, ""));
            rest = behind;
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                return Some(Part::End(local(name.trim())));
            }
            let is_empty = tag.ends_with('/');
            let tag = tag.trim_end_matches('/');
            let (name, attributes) =
                tag.split_once(|letter: char| letter.is_whitespace()).unwrap_or((tag, ""));
            return Some(Part::Start(local(name), attributes, is_empty));
        }
    })
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// Returns the value of an attribute.
pub(crate) fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, behind) = behind[1..].split_once(quote)?;
        if key.trim() == name {
            return Some(value);
        }
        rest = behind;
    }
}

/// Appends a text with its entities resolved.
///
/// # Errors
/// Returns an error if the whole text exceeds the limit of documents.
pub(crate) fn decode(text: &str, to: &mut String) -> Result<(), DocumentError> {
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        to.push_str(before);
        bounded(to)?;
        // Not `split_once`: a text of many `&` would be searched to its end for each of them.
        let end = entity.bytes().take(MAX_NAME + 1).position(|byte| byte == b';');
        let decoded = end.and_then(|end| Some((character(&entity[..end])?, &entity[end + 1..])));
        match decoded {
            Some((character, behind)) => {
                to.push(character);
                rest = behind;
            }
            None => {
                to.push('&');
                rest = entity;
            }
        }
    }
    to.push_str(rest);
    bounded(to)
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_read_tag_by_tag() {
        let xml = "<?xml version=\"1.0\"?><w:p a='1' w:b = \"x>\"><!-- <no> -->a &amp; b<w:br/></w:p>";
        let read: Vec<Part<'_>> = parts(xml).collect();
        assert_eq!(read[0], Part::Start("p", "a='1' w:b = \"x", false));
        assert!(read.contains(&Part::Start("br", "", true)) && read.contains(&Part::End("p")));
        assert_eq!(attribute("a='1' r:id = \"x y\"", "r:id"), Some("x y"));
        assert_eq!(attribute("a='1' b", "b"), None);
        for broken in ["<", "</", "<a", "&", "<![CDATA[", "<!--", "<a b=", "<é"] {
            parts(broken).for_each(drop);
        }
        let mut text = String::new();
        decode("&lt;&#228;&#x1F980;&nope;&&#x000001F980;&é;", &mut text).unwrap();
        assert_eq!(text, "<ä🦀&nope;&&#x000001F980;&é;");
    }
}
