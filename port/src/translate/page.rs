//! Pages that BeautifulSoup parsed, and their elements: `html::select` with a selector.
//!
//! The code of a page is its HTML, and that of an element the map that `html::select` returns. Only calls that find the
//! same elements are translated: of a page every selector that `html::select` knows, of an element those of one step.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call};
use crate::kinds::Type;
use crate::names;
use crate::python::{Expr, ExprKind};
use crate::report::NoteKind;
use crate::value::Value;

/// The elements that are read as attributes: `soup.title`, `link.img`.
const TAGS: [&str; 32] = [
    "a", "article", "b", "body", "button", "code", "div", "em", "footer", "form", "h1", "h2", "h3", "h4",
    "head", "header", "img", "li", "main", "nav", "ol", "p", "pre", "section", "span", "strong", "table",
    "td", "th", "title", "tr", "ul",
];

/// The attributes whose values are lists of words in BeautifulSoup.
const LISTS: [&str; 7] = ["accept-charset", "accesskey", "class", "dropzone", "headers", "rel", "rev"];

/// The pseudo-classes that `html::select` knows.
const PSEUDO_CLASSES: [&str; 4] = ["first-child", "last-child", "not", "nth-child"];

impl Translator<'_> {
    /// Returns the code of a method of a page or an element.
    pub(super) fn page_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            // The text has single spaces where tags were.
            "get_text" => {
                let separator = arguments.get(0, "separator");
                let strips =
                    arguments.named("strip").is_some_and(|value| matches!(value.kind, ExprKind::Bool(true)));
                match (separator.map(Expr::as_text), strips) {
                    (None, false) | (Some(Some(" ")), _) => Ok(text_of(of)),
                    _ => unknown(name),
                }
            }
            "select" | "select_one" => {
                let css = arguments.need(0, name)?;
                if arguments.count() > 1 || arguments.has_named() {
                    return unknown(name);
                }
                let css = match css.as_text() {
                    Some(css) if is_known(css) => {
                        names::quoted(&below(of, css).ok_or_else(|| not_known(name))?)
                    }
                    None if of.kind == Type::Page => self.expr(css)?.text,
                    _ => return unknown(name),
                };
                Ok(self.selected(of, css, name == "select"))
            }
            "find_all" | "findAll" | "find" => {
                let Some(css) = self.criteria(arguments).and_then(|css| below(of, &css)) else {
                    return unknown(name);
                };
                Ok(self.selected(of, names::quoted(&css), name != "find"))
            }
            "get" | "has_attr" if of.kind == Type::Element => {
                let key = arguments.need(0, name)?.as_text().filter(|key| !LISTS.contains(key));
                let Some(key) = key else { return unknown(name) };
                let attributes = of.property("attributes", Type::Map);
                match name {
                    "get" => self.get_of_map(&attributes, arguments),
                    _ => {
                        let text = format!("{} in {}", names::quoted(key), attributes.text);
                        Ok(Code::new(text, crate::code::strength::IN, Type::Bool))
                    }
                }
            }
            _ => unknown(name),
        }
    }

    /// Returns the code of an attribute of the Python object of a page or an element.
    pub(super) fn part_of_page(&mut self, of: &Code, name: &str) -> Outcome {
        match (&of.kind, name) {
            (_, "text") => Ok(text_of(of)),
            (Type::Element, "name") => Ok(of.property("tag", Type::Text)),
            // A title has no elements, so it is one string.
            (Type::Element, "string") if of.text.ends_with("title\")") => Ok(text_of(of)),
            _ if TAGS.contains(&name) => match below(of, name) {
                Some(css) => Ok(self.selected(of, names::quoted(&css), false)),
                None => unknown(name),
            },
            _ => unknown(name),
        }
    }

    /// Returns the code of `element["href"]`.
    pub(super) fn attribute_of_element(&mut self, of: &Code, key: &str) -> Outcome {
        if LISTS.contains(&key) {
            return Hindrance::err(NoteKind::Package, format!("the list of words of the attribute `{key}`"));
        }
        self.key_of_map(&of.property("attributes", Type::Map), key).map(|value| value.typed(Type::Text))
    }

    /// Returns the code of the elements that match, or of the first one.
    fn selected(&mut self, of: &Code, css: String, all: bool) -> Code {
        let page = match of.kind {
            Type::Element => of.property("html", Type::Text).text,
            _ => of.text.clone(),
        };
        match all {
            true => call("html::select", &[page, css], Type::list_of(Type::Element)),
            false => call(self.helper(Helper::SelectOne), &[page, css], Type::Element),
        }
    }

    /// Returns the selector of `find_all("a", class_="b", href=True)`; `None` if it is uncertain.
    fn criteria(&self, arguments: &Arguments<'_>) -> Option<String> {
        let value = |expr: &Expr| Value::of(expr, &self.plugin.constants);
        let mut tags = vec![String::new()];
        let mut tests = String::new();
        let is_tag = |tag: &str| {
            !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match arguments.get(0, "name").map(value) {
            None | Some(Some(Value::None | Value::Bool(true))) => {}
            Some(Some(Value::Text(tag))) if is_tag(&tag) => tags = vec![tag],
            Some(Some(Value::List(all))) if !all.is_empty() => {
                let all = all.into_iter().map(|tag| match tag {
                    Value::Text(tag) if is_tag(&tag) => Some(tag),
                    _ => None,
                });
                tags = all.collect::<Option<_>>()?;
            }
            Some(_) => return None,
        }
        let mut named: Vec<(String, Value)> = Vec::new();
        match arguments.get(1, "attrs").map(value) {
            None => {}
            Some(Some(Value::Text(class))) => named.push(("class".to_owned(), Value::Text(class))),
            Some(Some(Value::Map(all))) => named.extend(all),
            Some(_) => return None,
        }
        for (name, expr) in arguments.all_named() {
            match *name {
                "name" | "attrs" => {}
                "recursive" | "limit" | "string" | "text" => return None,
                "class_" => named.push(("class".to_owned(), value(expr)?)),
                name => named.push((name.to_owned(), value(expr)?)),
            }
        }
        for (name, value) in named {
            let is_name =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            match value {
                Value::Bool(true) if is_name => tests.push_str(&format!("[{name}]")),
                Value::Text(text) if is_name && !text.contains(['"', '\\', '\n']) => {
                    let is_word = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
                        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
                    if is_word && matches!(name.as_str(), "class" | "id") {
                        tests.push_str(&format!("{}{text}", if name == "id" { '#' } else { '.' }));
                        continue;
                    }
                    // A class is one of the words of its attribute.
                    let operator = match name.as_str() {
                        "class" if text.is_empty() || text.contains(char::is_whitespace) => return None,
                        name if LISTS.contains(&name) => "~=",
                        _ => "=",
                    };
                    tests.push_str(&format!("[{name}{operator}\"{text}\"]"));
                }
                _ => return None,
            }
        }
        if arguments.count() > 2 || !arguments.spread.is_empty() {
            return None;
        }
        let all = tags.iter().map(|tag| match tag.is_empty() && tests.is_empty() {
            true => "*".to_owned(),
            false => format!("{tag}{tests}"),
        });
        Some(all.collect::<Vec<_>>().join(", "))
    }
}

fn text_of(of: &Code) -> Code {
    match of.kind {
        Type::Element => of.property("text", Type::Text),
        _ => call("html::text", std::slice::from_ref(&of.text), Type::Text),
    }
}

fn not_known(name: &str) -> Hindrance {
    Hindrance::new(NoteKind::Package, format!("`.{name}` of a parsed page"))
}

fn unknown<T>(name: &str) -> Outcome<T> {
    Err(not_known(name))
}

/// Returns the selector below a page, or below an element, whose HTML begins with itself; `None` if a step of the
/// selector might be outside of it.
fn below(of: &Code, css: &str) -> Option<String> {
    if of.kind != Type::Element {
        return Some(css.to_owned());
    }
    let all = alternatives(css).map(|one| {
        let one = one.trim();
        let is_one_step =
            outside_brackets(one).all(|letter| !letter.is_whitespace() && !">+~".contains(letter));
        (is_one_step && !one.is_empty()).then(|| format!("* {one}"))
    });
    Some(all.collect::<Option<Vec<_>>>()?.join(", "))
}

/// Returns the letters that are not in brackets or parentheses.
fn outside_brackets(css: &str) -> impl Iterator<Item = char> {
    let mut is_outside = outside();
    css.chars().filter(move |letter| is_outside(*letter))
}

/// Splits a selector at the commas that are not in brackets or parentheses.
fn alternatives(css: &str) -> impl Iterator<Item = &str> {
    let mut is_outside = outside();
    css.split(move |letter| is_outside(letter) && letter == ',')
}

/// Returns a function that returns `true` for each letter of a selector that is not in brackets or parentheses.
fn outside() -> impl FnMut(char) -> bool {
    let mut depth = 0_usize;
    move |letter| {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    }
}

/// Returns `true` if `html::select` knows the pseudo-classes of a selector.
fn is_known(css: &str) -> bool {
    let mut quote = None;
    for (at, letter) in css.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, ':') => {
                let name: String = css[at + 1..]
                    .chars()
                    .take_while(|letter| letter.is_ascii_alphabetic() || *letter == '-')
                    .collect();
                if !PSEUDO_CLASSES.contains(&name.as_str()) {
                    return false;
                }
            }
            (None, '\\' | '|') => return false,
            _ => {}
        }
    }
    quote.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_of_elements_have_one_step() {
        let element = Code::atom("item", Type::Element);
        assert_eq!(
            below(&element, "a.x, b[c~=\"d e\"]:not(.f > g)").unwrap(),
            "* a.x, * b[c~=\"d e\"]:not(.f > g)"
        );
        for outside in ["h2 a", "> a", "a+b", "a ~ b", "a,"] {
            assert_eq!(below(&element, outside), None, "{outside}");
        }
        assert_eq!(below(&Code::atom("page", Type::Page), "h2 > a").unwrap(), "h2 > a");
        assert!(is_known("a:not(.b):nth-child(2n)[c=':d']"));
        for unknown in ["a:has(b)", "a::before", "a[b='c]", "svg|a", "a:is(b)"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
