//! Formatted texts.

use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{Expr, ExprKind, FormatPart};
use crate::report::NoteKind;
use crate::text::part;

/// A part of a formatted text.
enum Part {
    Text(String),
    Value(Code),
}

impl Translator<'_> {
    pub(super) fn format(&mut self, parts: &[FormatPart]) -> Outcome {
        let mut all = Vec::new();
        for part in parts {
            match part {
                FormatPart::Text(text) => {
                    self.effects.links.extend(super::http::host(text));
                    all.push(Part::Text(text.clone()));
                }
                FormatPart::Value { value, conversion, format, is_debug } => {
                    if let Some(debug) = is_debug {
                        all.push(Part::Text(format!("{debug}=")));
                    }
                    if value.as_name() == Some("__name__") && format.is_empty() {
                        all.push(Part::Text("plugin".to_owned()));
                        continue;
                    }
                    let code = self.expr(value)?;
                    let code = match conversion {
                        Some('r' | 'a') => call("json::stringify", &[code.text], Type::Text),
                        _ => code,
                    };
                    all.push(Part::Value(self.formatted(code, format)?));
                }
            }
        }
        Ok(text_of(&all))
    }

    /// Returns the code of a value with the format after `:`.
    fn formatted(&mut self, code: Code, format: &[FormatPart]) -> Outcome {
        let spec = match format {
            [] => return Ok(as_text(code)),
            [FormatPart::Text(spec)] => spec.clone(),
            _ => return Hindrance::err(NoteKind::Python, "a computed format"),
        };
        self.formatted_as(code, &spec)
    }

    pub(super) fn formatted_as(&mut self, code: Code, spec: &str) -> Outcome {
        if (code.kind.is_time() || code.kind == Type::Day) && spec.contains('%') {
            return Ok(super::time::shown(&code, &names::quoted(spec)));
        }
        let unknown = || Hindrance::new(NoteKind::Python, format!("the format `:{spec}`"));
        let mut rest = spec;
        // The syntax: [[fill]align][sign][#][0][width][,][.precision][type]
        let mut fill = ' ';
        let mut align = None;
        let mut chars = rest.chars();
        match (chars.next(), chars.next()) {
            (Some(first), Some(second)) if "<>^=".contains(second) => {
                fill = first;
                align = Some(second);
                rest = part(rest, first.len_utf8() + second.len_utf8()..);
            }
            (Some(first), _) if "<>^=".contains(first) => {
                align = Some(first);
                rest = part(rest, 1..);
            }
            _ => {}
        }
        let has_sign = rest.starts_with('+') && code.is_simple();
        if rest.starts_with('+') && !has_sign {
            return Hindrance::err(NoteKind::Python, "the format `+` of a computed value");
        }
        let number = code.text.clone();
        rest = rest.trim_start_matches(['+', '-', ' ', '#']);
        if rest.starts_with('0') && rest.len() > 1 {
            fill = '0';
            rest = part(rest, 1..);
        }
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let width = part(rest, ..digits).to_owned();
        rest = part(rest, digits..);
        let has_commas = rest.starts_with([',', '_']);
        rest = rest.trim_start_matches([',', '_']);
        let precision = match rest.strip_prefix('.') {
            Some(after) => {
                let digits = after.chars().take_while(char::is_ascii_digit).count();
                rest = part(after, digits..);
                after.get(..digits).map(str::to_owned)
            }
            None => None,
        };
        let kind_of_text = code.kind.clone();
        let mut out = match (rest, precision) {
            ("" | "s", None) => code,
            ("d" | "n", None) => code,
            ("" | "s", Some(digits)) if kind_of_text == Type::Text => {
                call("text::truncate", &[code.text, digits, "\"\"".to_owned()], Type::Text)
            }
            ("f" | "F" | "", digits) => {
                call("text::fixed", &[code.text, digits.unwrap_or_else(|| "6".to_owned())], Type::Text)
            }
            ("%", digits) => {
                let share = format!("{} * 100.0", code.at(strength::MULTIPLY));
                let number =
                    call("text::fixed", &[share, digits.unwrap_or_else(|| "6".to_owned())], Type::Text);
                Code::new(format!("{} + \"%\"", number.text), strength::ADD, Type::Text)
            }
            ("x", None) => code.method("to_hex", &[], Type::Text),
            ("X", None) => code.method("to_hex", &[], Type::Text).method("to_upper", &[], Type::Text),
            ("b", None) => code.method("to_binary", &[], Type::Text),
            ("o", None) => code.method("to_octal", &[], Type::Text),
            _ => return Err(unknown()),
        };
        if has_commas {
            let name = self.helper(Helper::Thousands);
            out = call(name, &[out.text], Type::Text);
        }
        if has_sign {
            let text = format!("if {number} < 0 {{ \"\" }} else {{ \"+\" }}");
            out = Code::new(format!("({text}) + {}", out.at(strength::ADD + 1)), strength::ADD, Type::Text);
        }
        if !width.is_empty() {
            let is_number = !matches!(kind_of_text, Type::Text);
            let side = match align {
                Some('<') => "<",
                Some('^') => "^",
                Some(_) => ">",
                None if is_number => ">",
                None => "<",
            };
            let name = self.helper(Helper::Padded);
            let args = [out.text, width, names::quoted(&fill.to_string()), names::quoted(side)];
            out = call(name, &args, Type::Text);
        }
        Ok(out)
    }

    /// Translates `"%s of %d" % (a, b)`.
    pub(super) fn percent_format(&mut self, text: &str, right: &Expr) -> Outcome {
        let values: Vec<&Expr> = match &right.kind {
            ExprKind::Tuple(all) => all.iter().collect(),
            ExprKind::Dict(_) => return Hindrance::err(NoteKind::Python, "`%` with a map"),
            _ => vec![right],
        };
        self.percent(text, &values)
    }

    /// Inserts values at the `%` placeholders of a text.
    pub(super) fn percent(&mut self, text: &str, values: &[&Expr]) -> Outcome {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut values = values.iter();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(part(rest, ..at));
            rest = part(rest, at + 1..);
            let length =
                rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '%').unwrap_or(rest.len());
            let spec = part(rest, ..length);
            let Some(kind) = rest.get(length..).and_then(|rest| rest.chars().next()) else { break };
            rest = part(rest, length + 1..);
            if kind == '%' {
                plain.push('%');
                continue;
            }
            let Some(value) = values.next() else {
                return Hindrance::err(NoteKind::Python, "`%` with too few values");
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            let code = self.expr(value)?;
            let code = match kind {
                'r' => call("json::stringify", &[code.text], Type::Text),
                'd' | 's' | 'i' if spec.is_empty() => as_text(code),
                's' => self.formatted_as(code, spec)?,
                'd' | 'f' | 'x' | 'X' | 'o' => self.formatted_as(code, &format!("{spec}{kind}"))?,
                _ => return Hindrance::err(NoteKind::Python, format!("the format `%{spec}{kind}`")),
            };
            parts.push(Part::Value(code));
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(text_of(&parts))
    }

    /// Translates `"{} of {n}".format(a, n=b)`.
    pub(super) fn brace_format(
        &mut self,
        text: &str,
        positional: &[&Expr],
        named: &[(&str, &Expr)],
    ) -> Outcome {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        let mut next = 0;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(part(rest, ..at));
            rest = part(rest, at..);
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push_str(part(rest, ..1));
                rest = part(rest, 2..);
                continue;
            }
            let Some(end) = rest.find('}').filter(|_| rest.starts_with('{')) else {
                return Hindrance::err(NoteKind::Python, "a format text with open braces");
            };
            let field = part(rest, 1..end);
            rest = part(rest, end + 1..);
            let (name, spec) = field.split_once(':').unwrap_or((field, ""));
            let value = if name.is_empty() {
                next += 1;
                positional.get(next - 1).copied()
            } else if let Ok(at) = name.parse::<usize>() {
                positional.get(at).copied()
            } else {
                named.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
            };
            let Some(value) = value else {
                return Hindrance::err(NoteKind::Python, format!("the field `{name}` of a format text"));
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            let code = self.expr(value)?;
            parts.push(Part::Value(if spec.is_empty() {
                as_text(code)
            } else {
                self.formatted_as(code, spec)?
            }));
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(text_of(&parts))
    }
}

/// Returns the code of a value whose text is that of Python, if its own text differs.
pub(super) fn as_text(code: Code) -> Code {
    match code.kind {
        Type::Bool => match code.text.as_str() {
            "true" => Code::atom("\"True\"", Type::Text),
            "false" => Code::atom("\"False\"", Type::Text),
            text => {
                Code::new(format!("if {text} {{ \"True\" }} else {{ \"False\" }}"), strength::ANY, Type::Text)
            }
        },
        Type::None => Code::atom("\"None\"", Type::Text),
        Type::Time | Type::Local(_) => super::time::shown(&code, "\"%Y-%m-%d %H:%M:%S\""),
        _ => code,
    }
}

/// Returns the code of a text: in backticks where possible, in double quotes for line breaks and other
/// special characters.
fn text_of(parts: &[Part]) -> Code {
    let mut all: Vec<String> = Vec::new();
    let mut template = String::new();
    let mut has_value = false;
    let flush = |template: &mut String, has_value: &mut bool, all: &mut Vec<String>| {
        if !template.is_empty() {
            all.push(if *has_value { format!("`{template}`") } else { names::quoted(template) });
            template.clear();
            *has_value = false;
        }
    };
    for piece in parts {
        match piece {
            Part::Value(code) => {
                let is_text = code.text.contains('\n');
                let inner = if is_text { code.text.replace('\n', " ") } else { code.text.clone() };
                template.push_str(&format!("${{{inner}}}"));
                has_value = true;
            }
            Part::Text(text) => {
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let is_special = |letter: char| {
                        letter == '`' || letter == '\\' || letter == '$' || letter.is_control()
                    };
                    let plain = rest.find(is_special).unwrap_or(rest.len());
                    template.push_str(part(rest, ..plain));
                    rest = part(rest, plain..);
                    let special = rest.find(|letter| !is_special(letter)).unwrap_or(rest.len());
                    if special > 0 {
                        flush(&mut template, &mut has_value, &mut all);
                        all.push(names::quoted(part(rest, ..special)));
                        rest = part(rest, special..);
                    }
                }
            }
        }
    }
    flush(&mut template, &mut has_value, &mut all);
    // Adjacent text literals become one.
    let mut joined: Vec<String> = Vec::new();
    for one in all {
        match joined.last_mut() {
            Some(last) if last.starts_with('"') && one.starts_with('"') => {
                last.pop();
                last.push_str(part(&one, 1..));
            }
            _ => joined.push(one),
        }
    }
    match joined.as_slice() {
        [] => Code::atom("\"\"", Type::Text),
        [one] => Code::atom(one.clone(), Type::Text),
        all if all.len() > 12 => {
            let parts = crate::value::wrapped("[", all, "]");
            call("text::join", &[parts, "\"\"".to_owned()], Type::Text)
        }
        _ => Code::new(joined.join(" + "), strength::ADD, Type::Text),
    }
}
