//! The elements of a page in order, each with its parent and its range in the text.

use super::super::argument::{RhaiResultOf, fail};
use super::super::markup::{after, is_one_of, skip_hidden, skip_tag, tag_name};
use super::super::output::{MAX_ITEMS, Pulse};
use super::attributes::attributes;
use std::borrow::Cow;

/// The maximum number of nested elements. As in browsers, deeper ones become siblings of the deepest.
const MAX_DEPTH: usize = 512;
/// Elements without content.
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements whose content has no tags.
pub(crate) const RAW: &[&str] = &["script", "style", "textarea", "title"];
/// Elements that end an open paragraph.
#[rustfmt::skip] // would be forty lines of one word
const ENDS_PARAGRAPH: &[&str] = &[
    "address", "article", "aside", "blockquote", "details", "dialog", "div", "dl", "fieldset", "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "menu", "nav", "ol", "p", "pre",
    "search", "section", "table", "ul",
];
/// Start tags, the open elements that they end, and the elements beyond which they end none.
const ENDED: &[(&[&str], &[&str], &[&str])] = &[
    (&["li"], &["li"], &["ul", "ol", "menu"]),
    (&["dt", "dd"], &["dt", "dd"], &["dl"]),
    (&["option"], &["option"], &["select", "datalist", "optgroup"]),
    (&["optgroup"], &["option", "optgroup"], &["select"]),
    (&["td", "th"], &["td", "th"], &["tr", "table"]),
    (&["tr"], &["tr", "td", "th"], &["table"]),
    (
        &["tbody", "thead", "tfoot"],
        &["tbody", "thead", "tfoot", "tr", "td", "th", "caption", "colgroup"],
        &["table"],
    ),
    (ENDS_PARAGRAPH, &["p"], &["table", "td", "th", "button", "caption"]),
];
/// Elements that the end tag of an inline element does not close.
const CELLS: &[&str] = &["td", "th", "table", "caption"];

/// An element of a page.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    /// As written.
    pub(crate) name: &'a str,
    /// The text between its name and the `>` of its start tag.
    attributes: &'a str,
    pub(crate) parent: Option<usize>,
    /// The previous sibling.
    pub(crate) before: Option<usize>,
    /// Its position among its siblings, counted from 1.
    pub(crate) number: usize,
    pub(crate) is_last: bool,
    /// The ranges of the element with its tags and of its content, in bytes.
    start: usize,
    content: usize,
    content_end: usize,
    end: usize,
}

impl<'a> Element<'a> {
    /// Returns its attributes. The first of several with the same name is valid.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        attributes(self.attributes)
    }

    /// Returns `true` if the attributes are too long to be searched many times without a check of the budget.
    pub(crate) fn has_long_attributes(&self) -> bool {
        self.attributes.len() > 4 << 10
    }

    /// Returns the decoded value of an attribute, whose name is in lower case.
    pub(crate) fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attributes().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The elements of a page, in the order of their start tags.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    html: &'a str,
    pub(crate) elements: Vec<Element<'a>>,
}

impl<'a> Tree<'a> {
    /// Reads the elements of a page.
    ///
    /// # Errors
    ///
    /// Returns an error if the page has too many elements or the call exceeds its budget.
    pub(crate) fn read(function: &str, html: &'a str) -> RhaiResultOf<Self> {
        let mut reader =
            Reader { tree: Self { html, elements: Vec::new() }, open: Vec::new(), last: vec![None] };
        let (mut rest, mut pulse) = (html, Pulse::new());
        while let Some(at) = rest.find('<') {
            pulse.beat()?;
            rest = &rest[at..];
            let start = html.len() - rest.len();
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = after(comment, "-->");
                continue;
            }
            let Some(name) = tag_name(rest) else {
                rest = &rest[1..];
                continue;
            };
            let tag = rest;
            rest = skip_tag(&rest[1..]);
            let end = html.len() - rest.len();
            if let Some(name) = name.strip_prefix('/') {
                reader.close(name, start, end);
            } else if !name.starts_with(['!', '?']) {
                if reader.tree.elements.len() >= MAX_ITEMS {
                    return Err(fail(
                        function,
                        format!("the page exceeded its limit of {MAX_ITEMS} elements"),
                    ));
                }
                let inner = &tag[1 + name.len()..end - start];
                let inner = inner.strip_suffix('>').unwrap_or(inner);
                reader.open(name, inner, start, end);
                if is_one_of(name, RAW) && reader.is_open(name) {
                    rest = skip_hidden(rest, name);
                    let closed = html.len() - rest.len();
                    let content = &html[end..closed];
                    let tag = content.rfind("</").filter(|at| {
                        let name_there = content[at + 2..].get(..name.len());
                        name_there.is_some_and(|there| there.eq_ignore_ascii_case(name))
                    });
                    reader.close(name, end + tag.unwrap_or(content.len()), closed);
                }
            }
        }
        reader.close_all(html.len());
        Ok(reader.tree)
    }

    /// Returns the text of an element with its tags.
    pub(crate) fn html(&self, element: &Element<'_>) -> &'a str {
        &self.html[element.start..element.end]
    }

    /// Returns the text between the tags of an element.
    pub(crate) fn content(&self, element: &Element<'_>) -> &'a str {
        &self.html[element.content..element.content_end]
    }
}

struct Reader<'a> {
    tree: Tree<'a>,
    /// The open elements, the innermost last.
    open: Vec<usize>,
    /// The last child so far of the page and of each open element, the outermost first.
    last: Vec<Option<usize>>,
}

impl<'a> Reader<'a> {
    fn open(&mut self, name: &'a str, attributes: &'a str, start: usize, end: usize) {
        for (names, ended, beyond) in ENDED {
            if is_one_of(name, names) {
                self.end_open(ended, beyond, start);
            }
        }
        if self.open.len() >= MAX_DEPTH {
            self.end_to(MAX_DEPTH - 1, start, start);
        }
        let (parent, index) = (self.open.last().copied(), self.tree.elements.len());
        let before = self.last.last().copied().flatten();
        if let Some(before) = before {
            self.tree.elements[before].is_last = false;
        }
        let number = before.map_or(1, |before| self.tree.elements[before].number + 1);
        self.tree.elements.push(Element {
            name,
            attributes,
            parent,
            before,
            number,
            is_last: true,
            start,
            content: end,
            content_end: end,
            end,
        });
        if let Some(last) = self.last.last_mut() {
            *last = Some(index);
        }
        let is_closed = attributes.ends_with('/') && self.is_in(&["svg", "math"]);
        if !is_one_of(name, VOID) && !is_closed {
            self.open.push(index);
            self.last.push(None);
        }
    }

    fn is_open(&self, name: &str) -> bool {
        self.open.last().is_some_and(|index| self.tree.elements[*index].name == name)
    }

    fn is_in(&self, names: &[&str]) -> bool {
        self.open.iter().any(|index| is_one_of(self.tree.elements[*index].name, names))
    }

    /// Ends the open elements with one of the names `ended`, up to one of the names `beyond`.
    fn end_open(&mut self, ended: &[&str], beyond: &[&str], at: usize) {
        let mut outermost = None;
        for (depth, index) in self.open.iter().enumerate().rev() {
            let name = self.tree.elements[*index].name;
            if is_one_of(name, ended) {
                outermost = Some(depth);
            } else if is_one_of(name, beyond) {
                break;
            }
        }
        if let Some(depth) = outermost {
            self.end_to(depth, at, at);
        }
    }

    /// Processes an end tag.
    fn close(&mut self, name: &str, start: usize, end: usize) {
        let is_inline = !is_one_of(name, CELLS)
            && !is_one_of(name, ENDS_PARAGRAPH)
            && !ENDED.iter().any(|(names, ..)| is_one_of(name, names))
            && !is_one_of(name, &["body", "html"]);
        for (depth, index) in self.open.iter().enumerate().rev() {
            let open = self.tree.elements[*index].name;
            if open.eq_ignore_ascii_case(name) {
                self.end_to(depth, start, end);
                return;
            }
            if is_inline && is_one_of(open, CELLS) {
                return;
            }
        }
    }

    /// Ends the open elements from a depth on. The outermost one includes the end tag.
    fn end_to(&mut self, depth: usize, start: usize, end: usize) {
        if let Some(outermost) = self.open.get(depth) {
            self.tree.elements[*outermost].end = end;
        }
        for index in self.open.drain(depth..).rev() {
            let element = &mut self.tree.elements[index];
            element.content_end = start;
            element.end = element.end.max(start);
        }
        self.last.truncate(depth + 1);
    }

    fn close_all(&mut self, end: usize) {
        self.end_to(0, end, end);
    }
}
