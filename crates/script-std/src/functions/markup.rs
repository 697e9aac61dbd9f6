//! Extracts the readable text of an HTML page in one forward pass, in linear time and for any input. It is not a
//! parser: malformed parts that browsers repair are skipped.

use html_escape::decode_html_entities;

/// The elements that are displayed on lines of their own.
#[rustfmt::skip] // forty lines of one word
const BLOCKS: &[&str] = &[
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "head", "header", "hr", "html", "legend", "li", "main", "nav", "ol", "optgroup", "option", "p", "pre",
    "section", "select", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul",
];
/// The elements that are separated from their neighbors in the same line.
const CELLS: &[&str] = &["td", "th"];
/// The elements whose content is not text.
pub(super) const HIDDEN: &[&str] = &["script", "style"];

/// Returns the text of a page or fragment.
pub(super) fn text(html: &str) -> String {
    let (mut page, mut rest) = (Page::default(), html);
    while let Some(at) = rest.find('<') {
        if at > 0 {
            page.write(&rest[..at]);
        }
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = after(comment, "-->");
        } else if let Some(name) = tag_name(rest) {
            rest = skip_tag(&rest[1..]);
            if !name.starts_with('/') && is_one_of(name, HIDDEN) {
                rest = skip_hidden(rest, name);
            }
            page.pass(name.trim_start_matches('/'));
        } else {
            page.push('<');
            rest = &rest[1..];
        }
    }
    page.write(rest);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    gap: Gap,
}

/// The separator between the last character and the next.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
}

impl Page {
    fn write(&mut self, run: &str) {
        for character in decode_html_entities(run).chars() {
            if character.is_whitespace() {
                self.gap = self.gap.max(Gap::Space);
            } else {
                self.push(character);
            }
        }
    }

    /// Appends a character that is not white space, after the current gap.
    fn push(&mut self, character: char) {
        match std::mem::take(&mut self.gap) {
            Gap::Space if !self.text.is_empty() => self.text.push(' '),
            Gap::Line if !self.text.is_empty() => self.text.push('\n'),
            _ => {}
        }
        self.text.push(character);
    }

    fn pass(&mut self, name: &str) {
        if is_one_of(name, BLOCKS) {
            self.gap = Gap::Line;
        } else if is_one_of(name, CELLS) {
            self.gap = self.gap.max(Gap::Space);
        }
    }
}

pub(super) fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the name in a tag, with its `/` if it is an end tag; `None` if this `<` does not open a tag.
pub(super) fn tag_name(text: &str) -> Option<&str> {
    let inner = &text[1..];
    let slash = usize::from(inner.starts_with('/'));
    if !inner[slash..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
        return None;
    }
    let end = inner[slash..].find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/');
    Some(&inner[..slash + end.unwrap_or(inner.len() - slash)])
}

/// Returns the text after the current tag; a `>` in quotes does not end it.
pub(super) fn skip_tag(text: &str) -> &str {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return &text[at + 1..],
            // A quote opens a value only after `=`; elsewhere it is a mistake.
            (None, b'"' | b'\'') if text[..at].trim_end().ends_with('=') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    ""
}

/// Returns the text after the end of a script or style.
pub(super) fn skip_hidden<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        if rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return skip_tag(rest);
        }
    }
    ""
}

pub(super) fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn html_becomes_readable_text() {
        for (html, expected) in [
            ("", ""),
            ("a  b\n c", "a b c"),
            ("<h1>T</h1><p>one<br/>two</p> <p>x</p>", "T\none\ntwo\nx"),
            ("<ul><li>a<li>b</ul>", "a\nb"),
            ("<tr><td>a</td><td>b</td></tr><tr><td>c</td></tr>", "a b\nc"),
            ("a<b>b</b>c", "abc"),
            ("a<script>if (1 < 2) '</p>'</SCRIPT >b<style>c", "ab"),
            ("a<!-- <p> -->b<!doctype html>c<?xml ?>d", "abcd"),
            ("<a title=\"1 > 0\" href='>'>x</a>", "x"),
            ("<a title=\">y", ""),
            ("don't <p>a 'b'", "don't\na 'b'"),
            ("1 < 2 && 3 > 2", "1 < 2 && 3 > 2"),
            ("&lt;p&gt;&nbsp;x&#8364;", "<p> x€"),
            ("<", "<"),
            ("a<é", "a<é"),
            ("a</p", "a"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    proptest! {
        #[test]
        fn malformed_html_is_accepted(html in r#"([<>/!"'=&;# \-äa-c]|<p|<!--|<script|</script)*"#) {
            text(&html);
        }
    }
}
