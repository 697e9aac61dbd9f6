//! Regular expressions: `re.…` and the methods of compiled patterns.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator, Variable};
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{BinaryOp, Expr, ExprKind, FormatPart};
use crate::report::NoteKind;

impl Translator<'_> {
    /// Returns the code of a condition that only tests whether a pattern matches.
    pub(super) fn match_condition(&mut self, expr: &Expr) -> Outcome<Option<Code>> {
        let ExprKind::Call(of, args) = &expr.kind else { return Ok(None) };
        let arguments = Arguments::of(args);
        let (name, pattern, text) = match self.full_path(of) {
            Some(path) => match path.strip_prefix("re.") {
                Some(name @ ("search" | "match" | "fullmatch")) => {
                    let pattern = self.pattern(arguments.need(0, name)?, arguments.get(2, "flags"))?;
                    (name.to_owned(), pattern, arguments.need(1, name)?)
                }
                _ => return Ok(None),
            },
            None => {
                let ExprKind::Attribute(of, name) = &of.kind else { return Ok(None) };
                if !matches!(name.as_str(), "search" | "match" | "fullmatch") || arguments.count() != 1 {
                    return Ok(None);
                }
                if crate::plugin::of_self(expr).is_some() || of.as_name() == Some("self") {
                    return Ok(None);
                }
                let pattern = self.expr(of)?;
                if !matches!(pattern.kind, Type::Pattern | Type::Unknown | Type::Text) {
                    return Ok(None);
                }
                (name.clone(), pattern.text, arguments.need(0, name)?)
            }
        };
        let pattern = anchored(&name, &pattern);
        let text = self.expr(text)?;
        Ok(Some(call("regex::is_match", &[text.text, pattern], Type::Bool)))
    }

    /// Returns the code that calls a function of `re`.
    pub(super) fn re(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            "compile" => {
                let pattern = self.pattern(arguments.need(0, name)?, arguments.get(1, "flags"))?;
                Ok(Code::atom(pattern, Type::Pattern))
            }
            "escape" => {
                let text = self.expr(arguments.need(0, name)?)?;
                Ok(call("regex::escape", &[text.text], Type::Text))
            }
            "search" | "match" | "fullmatch" | "findall" | "finditer" => {
                let given = arguments.need(0, name)?;
                let pattern = self.pattern(given, arguments.get(2, "flags"))?;
                let text = self.expr(arguments.need(1, name)?)?;
                if let Some(crate::value::Value::Text(known)) =
                    crate::value::Value::of(given, &self.plugin.constants)
                {
                    return self.matched(name, &pattern, &text, Some(&known));
                }
                let known = names::is_quoted(&pattern).then(|| pattern.clone());
                self.matched(name, &pattern, &text, known.as_deref())
            }
            "sub" | "subn" => {
                let pattern = self.pattern(arguments.need(0, name)?, arguments.get(4, "flags"))?;
                if arguments.get(3, "count").is_some() {
                    return Hindrance::err(NoteKind::Pattern, "`re.sub` with a count");
                }
                let text = self.expr(arguments.need(2, name)?)?;
                self.substituted(&pattern, arguments.need(1, name)?, &text)
            }
            "split" => {
                let pattern = self.pattern(arguments.need(0, name)?, arguments.get(3, "flags"))?;
                let text = self.expr(arguments.need(1, name)?)?;
                Ok(call("regex::split", &[text.text, pattern], Type::list_of(Type::Text)))
            }
            _ => Hindrance::err(NoteKind::Pattern, format!("`re.{name}`")),
        }
    }

    /// Returns the code that calls a method of a compiled pattern.
    pub(super) fn pattern_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            "search" | "match" | "fullmatch" | "findall" | "finditer" => {
                let text = self.expr(arguments.need(0, name)?)?;
                let known = names::is_quoted(&of.text).then(|| of.text.clone());
                self.matched(name, &of.text, &text, known.as_deref())
            }
            "sub" => {
                let text = self.expr(arguments.need(1, name)?)?;
                if arguments.get(2, "count").is_some() {
                    return Hindrance::err(NoteKind::Pattern, "`sub` with a count");
                }
                self.substituted(&of.text, arguments.need(0, name)?, &text)
            }
            "split" => {
                let text = self.expr(arguments.need(0, name)?)?;
                Ok(call("regex::split", &[text.text, of.text.clone()], Type::list_of(Type::Text)))
            }
            _ => Hindrance::err(NoteKind::Pattern, format!("`.{name}` of a pattern")),
        }
    }

    /// Returns the code of the matches of a pattern, whose text may be `known`.
    fn matched(&mut self, name: &str, pattern: &str, text: &Code, known: Option<&str>) -> Outcome {
        let text = text.text.clone();
        Ok(match name {
            "findall" => match known.map_or(usize::MAX, groups) {
                usize::MAX => {
                    let found_all = self.helper(super::Helper::FoundAll);
                    call(found_all, &[text, pattern.to_owned()], Type::list())
                }
                0 => call("regex::find_all", &[text, pattern.to_owned()], Type::list_of(Type::Text)),
                1 => call("regex::captures_all", &[text, pattern.to_owned()], Type::list()).method(
                    "map",
                    &["|groups| groups[1]".to_owned()],
                    Type::list_of(Type::Text),
                ),
                _ => call("regex::captures_all", &[text, pattern.to_owned()], Type::list()).method(
                    "map",
                    &["|groups| groups.extract(1)".to_owned()],
                    Type::list_of(Type::list()),
                ),
            },
            "finditer" => {
                call("regex::captures_all", &[text, pattern.to_owned()], Type::list_of(Type::Match))
            }
            _ => call("regex::captures", &[text, anchored(name, pattern)], Type::Match),
        })
    }

    fn substituted(&mut self, pattern: &str, replacement: &Expr, text: &Code) -> Outcome {
        let replacement = match &replacement.kind {
            ExprKind::Text(replacement) => names::quoted(&references(replacement)),
            ExprKind::Lambda(params, body) => {
                let [param] = params.as_slice() else {
                    return Hindrance::err(NoteKind::Pattern, "a replacement with several parameters");
                };
                let code = names::variable(&param.name);
                let variable = Variable { code: code.clone(), kind: Type::Match };
                let body = self.with_variables(vec![(param.name.clone(), variable)], |translator| {
                    translator.expr(body)
                })?;
                format!("|{code}| {}", body.text)
            }
            ExprKind::Format(parts)
                if parts.iter().any(|part| matches!(part, FormatPart::Text(text) if text.contains('\\'))) =>
            {
                return Hindrance::err(NoteKind::Pattern, "a computed replacement with references to groups");
            }
            _ => {
                let code = self.expr(replacement)?;
                let constant = crate::value::Value::of(replacement, &self.plugin.constants);
                match code.kind {
                    Type::Text if let Some(crate::value::Value::Text(text)) = &constant => {
                        names::quoted(&references(text))
                    }
                    Type::Closure if !code.text.starts_with('|') => {
                        format!("|groups| {}", as_call(&code.text))
                    }
                    Type::Closure => code.text,
                    _ if code.text.starts_with('"') => code.text,
                    // The text is not a template: its `$` stays.
                    _ if code.is_simple() => format!("|_groups| {}", code.text),
                    _ => format!("text::replace({}, \"$\", \"$$\")", code.text),
                }
            }
        };
        Ok(call("regex::replace", &[text.text.clone(), pattern.to_owned(), replacement], Type::Text))
    }

    /// Returns the code of a pattern with its flags.
    fn pattern(&mut self, pattern: &Expr, flags: Option<&Expr>) -> Outcome<String> {
        let mut marks = String::new();
        if let Some(flags) = flags {
            self.flags(flags, &mut marks)?;
        }
        let marks = if marks.is_empty() { String::new() } else { format!("(?{marks})") };
        let known = crate::value::Value::of(pattern, &self.plugin.constants);
        if let Some(crate::value::Value::Text(text)) = known
            && (pattern.as_text().is_some() || !marks.is_empty())
        {
            return Ok(names::pattern(&checked(&with_escaped_brackets(&format!("{marks}{text}")))?));
        }
        if let ExprKind::Format(parts) = &pattern.kind {
            for part in parts {
                if let crate::python::FormatPart::Text(text) = part {
                    checked(text)?;
                }
            }
        }
        let code = self.expr(pattern)?;
        Ok(if marks.is_empty() { code.text } else { format!("\"{marks}\" + {}", code.at(strength::ADD + 1)) })
    }

    fn flags(&mut self, flags: &Expr, marks: &mut String) -> Outcome<()> {
        if let ExprKind::Binary(BinaryOp::Or, left, right) = &flags.kind {
            self.flags(left, marks)?;
            return self.flags(right, marks);
        }
        let path = self.full_path_or_empty(flags);
        if !path.starts_with("re.") {
            return Hindrance::err(NoteKind::Pattern, "computed flags of a pattern");
        }
        let mark = self.imported(&path)?;
        marks.push_str(mark.text.trim_matches('"'));
        Ok(())
    }

    /// Returns the code that calls a method of a match.
    pub(super) fn match_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            "group" | "__getitem__" => match arguments.at(0) {
                None => Ok(of.index("0", Type::Text)),
                Some(Expr { kind: ExprKind::Int(at), .. }) => Ok(of.index(&at.to_string(), Type::Text)),
                Some(Expr { kind: ExprKind::Text(name), .. }) => Hindrance::err(
                    NoteKind::Pattern,
                    format!("the group `{name}` by name: groups have numbers here"),
                ),
                Some(at) => {
                    let at = self.expr(at)?;
                    Ok(of.index(&at.text, Type::Text))
                }
            },
            "groups" => Ok(of.method("extract", &["1".to_owned()], Type::list_of(Type::Text))),
            _ => Hindrance::err(NoteKind::Pattern, format!("`.{name}()` of a match: matches have no places")),
        }
    }
}

fn as_call(function: &str) -> String {
    let is_function = function.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_function { format!("{function}(groups)") } else { format!("{function}.call(groups)") }
}

/// Returns a pattern that is anchored as `match` or `fullmatch` require.
fn anchored(name: &str, pattern: &str) -> String {
    let (start, end) = match name {
        "match" => ("^(?:", ")"),
        "fullmatch" => ("^(?:", ")$"),
        _ => return pattern.to_owned(),
    };
    let quote = pattern.chars().next().filter(|quote| matches!(quote, '"' | '`'));
    match quote.and_then(|quote| pattern.strip_prefix(quote)?.strip_suffix(quote).map(|inner| (quote, inner)))
    {
        Some((quote, inner)) if !inner.contains(quote) => format!("{quote}{start}{inner}{end}{quote}"),
        _ => format!("`{start}${{{pattern}}}{end}`"),
    }
}

/// Returns the number of groups in a pattern literal.
fn groups(pattern: &str) -> usize {
    let mut count = 0;
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(next) = chars.next() {
        match next {
            '\\' => drop(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                if chars.peek() != Some(&'?') {
                    count += 1;
                } else {
                    chars.next();
                    if chars.next() == Some('P') && chars.next() == Some('<') {
                        count += 1;
                    }
                }
            }
            _ => {}
        }
    }
    count
}

/// Returns `true` for a pattern with look-around.
pub(super) fn is_beyond(pattern: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|mark| pattern.contains(mark))
}

/// Returns the pattern if the host supports it.
fn checked(pattern: &str) -> Outcome<String> {
    if is_beyond(pattern) {
        return Hindrance::err(NoteKind::Pattern, "a pattern with look-around");
    }
    if pattern.contains("(?P=") {
        return Hindrance::err(NoteKind::Pattern, "a pattern that refers to a group");
    }
    let mut chars = pattern.chars();
    let mut out = String::new();
    while let Some(next) = chars.next() {
        out.push(next);
        if next != '\\' {
            continue;
        }
        match chars.next() {
            Some('1'..='9') | Some('g') => {
                return Hindrance::err(NoteKind::Pattern, "a pattern that refers to a group");
            }
            Some('Z') => out.push('z'),
            // Escapes of a character that stand for the character itself.
            Some(
                plain @ ('"' | '\'' | '<' | '>' | '/' | ',' | ':' | ';' | '=' | '!' | '@' | '%' | '`' | '_'
                | ' ' | '&' | '~' | '-' | '#'),
            ) => {
                if !matches!(plain, '-' | '&' | '~' | '#' | ' ') {
                    out.pop();
                }
                out.push(plain);
            }
            Some(escape) => out.push(escape),
            None => {}
        }
    }
    Ok(out)
}

/// Returns a replacement with `${1}` in place of `\1`.
fn references(replacement: &str) -> String {
    let mut out = String::new();
    let mut chars = replacement.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some(digit @ '0'..='9') => out.push_str(&format!("${{{digit}}}")),
                Some('g') if chars.peek() == Some(&'<') => {
                    chars.next();
                    let name: String = chars.by_ref().take_while(|letter| *letter != '>').collect();
                    out.push_str(&format!("${{{name}}}"));
                }
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('\\') => out.push('\\'),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

/// Returns a pattern with `\[` for each `[` within a class, which Python reads as a literal character.
fn with_escaped_brackets(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    // The number of characters of the class so far, without its `^`; `None` outside of a class.
    let mut class: Option<usize> = None;
    while let Some(letter) = chars.next() {
        class = match (class, letter) {
            (None, '[') => Some(0),
            (Some(0), '^') if out.ends_with('[') => Some(0),
            // A `]` at the start is literal.
            (Some(1..), ']') => None,
            (Some(length), _) => {
                if matches!(letter, '[' | ']') {
                    out.push('\\');
                }
                Some(length + 1)
            }
            (None, _) => None,
        };
        out.push(letter);
        if letter == '\\' {
            out.extend(chars.next());
        }
    }
    out
}
