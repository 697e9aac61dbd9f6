//! Syntax of Python or JavaScript, and its counterpart in Rhai.

use super::cause::{Cause, Syntax};
use super::codes::Code;
use super::explanation::Foreign;
use super::finding::Diagnostic;
use super::{comprehension, keywords, names, signature};
use valvehouse_core::text::nearest;
use valvehouse_dialect::syntax::{ParseFault, Within};

const IMPORT: &str = "the host's modules are available without an import";
const NOTHING_TO_IMPORT: &str = "remove the import: the host's modules, such as json:: and http::, are \
                                 available without one; import a file of your own with `import \"lib/words\" as words;`";

/// Returns the problem with an explanation if it is syntax of another language.
pub(super) fn describe(kind: ParseFault<'_>, problem: &Diagnostic, source: &str) -> Option<Diagnostic> {
    if problem.code == Code::TooComplex {
        return None;
    }
    if let Some(at) = three_quotes(problem, source) {
        let begins = source[..at].trim_start_matches('\u{feff}').trim().is_empty();
        let help = match begins {
            true => "the description of a script is a comment: write `/*` before it and `*/` after it",
            false => "write a text of several lines in backticks, a comment as `/* … */`",
        };
        let found = Foreign::syntax(Syntax::ThreeQuotes, help);
        return Some(found.explain(problem, source).at_byte(source, at));
    }
    let of_language = of_language(problem.excerpt.trim_start());
    if of_language.is_none()
        && let Some(line) = keywords::line_before(problem, source)
    {
        let found = match line.is_import {
            true => import(),
            false => Foreign::keyword("pass", "remove it; a block may be empty: `{ }`")
                .because(Cause::NeedlessLine("pass")),
        };
        return Some(found.explain(problem, source).at(source, line.place));
    }
    let found = of_language
        .or_else(|| of_kind(kind))
        .or_else(|| names::of_name(kind, problem))
        .or_else(|| names::of_module(kind, problem));
    let found = match kind {
        ParseFault::UnknownVariable(_) => found,
        _ => found.or_else(|| rewritten(problem)).or_else(|| of_place(kind, problem)),
    };
    found.map(|found| found.explain(problem, source))
}

fn import() -> Foreign {
    Foreign::said(IMPORT, NOTHING_TO_IMPORT).because(Cause::NeedlessLine("the import"))
}

/// Explains a line that is whole in another language.
fn of_language(line: &str) -> Option<Foreign> {
    if ["def ", "class ", "async def", "@"].iter().any(|word| line.starts_with(word)) {
        return Some(Foreign::language(
            "Python",
            "write a hook as `fn inlet(body) { … }` at the top level, a tool as `fn handler(args) { … }`; \
             docs/guide describes how to port a filter",
        ));
    }
    let help = "write `fn` for `function`; a hook is `fn inlet(body) { … }` at the top level";
    match line.split_once(' ')?.0 {
        "function" => Some(Foreign::language("JavaScript", help).because(Cause::written("function", "fn"))),
        "export" => Some(Foreign::language("JavaScript", help)),
        _ => None,
    }
}

/// Explains syntax whose counterpart is computed from what the author wrote.
fn rewritten(problem: &Diagnostic) -> Option<Foreign> {
    let at = problem.excerpt.char_indices().nth(problem.column? - 1)?.0;
    if let Some((_, instead)) = comprehension::in_row(&problem.excerpt, at) {
        return Some(Foreign::syntax(Syntax::Comprehension, format!("write `{instead}`")));
    }
    let (_, names) = signature::in_row(&problem.excerpt, at)?;
    let help = format!("write the names alone: `({names})`");
    Some(Foreign::syntax(Syntax::Signature, help))
}

/// Explains what the parser refused by its kind.
fn of_kind(kind: ParseFault<'_>) -> Option<Foreign> {
    let sign = match kind {
        ParseFault::Unexpected(sign) | ParseFault::UnknownSign(sign) | ParseFault::Reserved(sign) => sign,
        _ => return None,
    };
    Some(match sign {
        "'" => Foreign::syntax(Syntax::SingleQuotes, "write a text in double quotes or backticks"),
        "**" | "..." => Foreign::said(
            "maps and lists cannot be unpacked",
            "write `map + #{ key: value }`, `list + [value]`; of a body, set the key: `body.key = value;`",
        ),
        "#" => Foreign::said("a comment begins with `//`", "write a comment with `//`")
            .because(Cause::written("#", "//")),
        "try" => {
            Foreign::said("`try` has no value", "declare the variable before the `try` and set it inside")
        }
        "?" => Foreign::syntax(
            Syntax::Ternary,
            "write `if a { b } else { c }`, also as a value; `a ?? b` is `b` if `a` is ()",
        )
        .at("?"),
        "++" => Foreign::syntax(Syntax::Increment, "write `x += 1`").at("++"),
        "--" => Foreign::syntax(Syntax::Decrement, "write `x -= 1`").at("--"),
        "===" => Foreign::operator("===", "write `==`; there is one kind of comparison")
            .because(Cause::written("===", "==")),
        "!==" => Foreign::operator("!==", "write `!=`; there is one kind of comparison")
            .because(Cause::written("!==", "!=")),
        ":=" => Foreign::operator(":=", "write `let x = 5;` to declare a variable, `x = 5;` to change it"),
        "->" => Foreign::said(
            "a function has no return type",
            "remove `->` and the type after it: `fn name(a) { … }`",
        ),
        "(*" => Foreign::said(
            "unknown operator `**` before an argument",
            "pass the map or list itself: `helper(options)`",
        )
        .at("**"),
        _ => return None,
    })
}

/// Returns the position of three quotes in code, up to the line of a problem: Python's text of several lines.
fn three_quotes(problem: &Diagnostic, source: &str) -> Option<usize> {
    let end: usize = source.split_inclusive('\n').take(problem.line?).map(str::len).sum();
    // After the first quotes, the rest of the file reads as one text.
    let at = source[..end].find("\"\"\"")?;
    let before = &source[..at];
    let is_code =
        before.trim().is_empty() || !before.contains(['`', '"']) && before.rfind("/*") <= before.rfind("*/");
    let line = before.rsplit('\n').next().unwrap_or(before);
    (is_code && !line.contains("//")).then_some(at)
}

/// Explains a problem by the text around its position.
fn of_place(kind: ParseFault<'_>, problem: &Diagnostic) -> Option<Foreign> {
    let at = problem.excerpt.chars().skip(problem.column? - 1).collect::<String>();
    let before = problem.excerpt.chars().take(problem.column? - 1).collect::<String>();
    let (before, line) = (before.trim_end(), problem.excerpt.trim());
    of_words(kind, before, &at, line)
        .or_else(|| of_colon(before, &at, line))
        .or_else(|| of_declaration(before, &at))
        .or_else(|| keywords::at_place(before, &at))
        .or_else(|| {
            let is_map = kind == ParseFault::UnexpectedMap;
            match at.starts_with("=>") {
                true => Some(Foreign::syntax(Syntax::Arrow, "write a closure as `|x| x * 2`")),
                false => is_map.then(|| {
                    Foreign::said(
                        "a loop cannot go through a map that is written in it",
                        "assign the map to a variable before the loop: `let entries = #{ … };`",
                    )
                }),
            }
        })
}

/// Explains a problem by the words and signs at its position.
fn of_words(kind: ParseFault<'_>, before: &str, at: &str, line: &str) -> Option<Foreign> {
    let is_missing = |place| matches!(kind, ParseFault::MissingToken(_, within) if within == place);
    Some(match at.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()? {
        word if word.starts_with("except") => Foreign::keyword("except", "write `catch (e) { … }`"),
        "for" if before.contains('[') => {
            Foreign::syntax(Syntax::Comprehension, "write `list.map(|x| x * 2)`")
        }
        _ if is_missing(Within::Arguments) && is_assigned(at) => {
            Foreign::said("named arguments are not supported", instead_of_named(before))
        }
        _ if ends_with_word(before, "case") || at.starts_with("case ") => {
            Foreign::keyword("case", "write `switch value { 1 => a, 2 => b, _ => c }`")
        }
        _ if is_missing(Within::Brackets) && at.starts_with(',') => {
            Foreign::said("tuples are not supported", "write a list: `[1, 2]`")
        }
        _ if at.starts_with(',') && is_list_without_brackets(before) => {
            Foreign::said("tuples and sets are not supported", "write a list: `[1, 2]`")
        }
        _ if at.starts_with('>') && before.ends_with('<') => Foreign::operator("<>", "write `!=`"),
        _ if is_declared(before) && at.starts_with(',') || is_pattern(kind, at) => Foreign::said(
            "`let` declares one variable",
            "write one `let` for each: `let a = pair[0]; let b = pair[1];`",
        ),
        _ if is_declared(before) && at.starts_with(':') => {
            Foreign::syntax(Syntax::Type, "remove the `:` and the type: `let x = 5;`")
        }
        _ if before.ends_with("elif") => {
            Foreign::keyword("elif", "write `else if`").because(Cause::written("elif", "else if"))
        }
        _ if at.starts_with('"') && ["if", "while"].iter().any(|word| ends_with_word(before, word)) => {
            Foreign::said(
                "invalid condition: expected true or false, got a text",
                "compare it: `if text != \"\" { … }`",
            )
        }
        "if" if !before.is_empty() && at.contains(" else ") && !line.starts_with("if ") => {
            Foreign::syntax(Syntax::Conditional, "write `let x = if condition { a } else { b };`")
        }
        _ if ends_with_word(before, "lambda") || at.starts_with("lambda ") => {
            Foreign::syntax(Syntax::Lambda, "write a closure as `|x| x * 2`").at("lambda")
        }
        _ if before.contains("for ")
            && matches!(kind, ParseFault::MissingToken("in", _))
            && at.starts_with(',') =>
        {
            Foreign::syntax(
                Syntax::TwoVariables,
                "write `for (key, value) in map { … }`, and `for (item, index) in list { … }`",
            )
        }
        _ if at.starts_with('"') && ends_with_word(before, "f") => {
            let help = match at.contains(":.") {
                true => "use backticks for a text with values: `${text::fixed(x, 2)}` instead of `{x:.2f}`",
                false => "use backticks for a text with values: `Hello ${name}`",
            };
            Foreign::syntax(Syntax::Filled, help).at("f")
        }
        _ if line.starts_with("import ") && !line.contains(['"', '`']) => import(),
        _ if is_assigned(at) && is_condition(before) => {
            Foreign::syntax(Syntax::AssignedCondition, "compare with `==`")
        }
        _ => return None,
    })
}

/// Explains a colon: it starts neither a block nor a slice, and a map begins with `#{`.
fn of_colon(before: &str, at: &str, line: &str) -> Option<Foreign> {
    let begins = |text: &str| {
        ["fn ", "if ", "for ", "while ", "else", "try"].iter().any(|word| text.starts_with(word))
    };
    // The colon of a map or slice follows its own bracket.
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or(before).trim_start();
    let statement = if has_open_bracket(statement) { "" } else { statement };
    let bracket = before.rfind('[').filter(|open| !before[*open..].contains([']', '{', '"']));
    let is_slice = bracket.is_some() && (at.starts_with(':') || at.starts_with(']') && before.ends_with(':'));
    let opened = before.rfind('{').filter(|brace| !before[..*brace].ends_with('#'));
    Some(match is_slice {
        _ if line.starts_with("if __name__") => {
            Foreign::said("a script has no main part", "remove it: the host calls the hooks of the file")
        }
        _ if begins(line) && line.ends_with(':') || at.starts_with(':') && begins(statement) => {
            Foreign::said(
                "`:` cannot start a block",
                "write a block in braces: `if a { … }`, `fn inlet(body) { … }`",
            )
        }
        true if at.starts_with("::") || before.ends_with("::") => Foreign::said(
            "`::` is not a step",
            "write `let back = list.copy(); back.reverse();`, of a text `text.to_chars()` for the list; to step, \
             `for i in range(0, list.len(), 2) { … }`",
        ),
        true if at.starts_with(":-") => {
            Foreign::syntax(Syntax::Slice, "write `value.extract(0..value.len() - 1)` for all but the last")
        }
        true => Foreign::syntax(
            Syntax::Slice,
            "write `value.extract(1..3)`, `value.extract(2)` from the third on, `value.extract(-4)` for the last four, \
             of a list or a text; `messages[1..3]` and `text[1..3]` work too",
        ),
        false if at.starts_with(':') && opened.is_some() => {
            Foreign::syntax(Syntax::BraceMap, "write a map as `#{ key: value }`")
        }
        false => return None,
    })
}

/// Explains a declaration with another word than `let`.
fn of_declaration(before: &str, at: &str) -> Option<Foreign> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = before.rsplit_once(|letter| !is_part(letter)).map_or(before, |(_, word)| word);
    let is_given_a_value = at.trim_start_matches(is_part).trim_start().starts_with("= ");
    ((word == "var" || nearest(word, ["let"]).is_some()) && is_given_a_value)
        .then(|| Foreign::syntax(Syntax::Declaration, "write `let name = value;`"))
}

/// Calls with named arguments, and what to write instead.
const NAMED: [(&[&str], &str); 7] = [
    (&["sort", "order"], "write `list.order(|x| x.price)`"),
    (
        &["sorted"],
        "write `sorted(list, |x| x.price)`, and `sorted(list, |x| x.price, true)` for the reverse order",
    ),
    (&["max"], "write `max(list, |x| x.price)`"),
    (&["min"], "write `min(list, |x| x.price)`"),
    (&["dict"], "write a map as `#{ key: value }`"),
    (&["Field"], "write a valve as `limit: #{ value: 5, minimum: 1, description: \"…\" }`"),
    (
        &["get", "post", "put", "patch", "delete", "request"],
        "pass them in a map: `http::post(url, #{ json: data, headers: #{ … }, timeout: 5_000 })`",
    ),
];

/// Returns the hint for a named argument behind this text.
fn instead_of_named(before: &str) -> &'static str {
    let opened = before.rfind('(').map_or("", |open| &before[..open]);
    let known = NAMED.iter().find(|(names, _)| names.iter().any(|name| ends_with_word(opened, name)));
    known.map_or("pass the values in their order, or one map: `f(#{ key: value })`", |(_, help)| help)
}

/// Returns `true` if a bracket of the text is open at its end.
fn has_open_bracket(text: &str) -> bool {
    let count = |bracket: char| text.matches(bracket).count();
    count('[') > count(']') || count('(') > count(')')
}

/// Returns `true` before the comma of `return a, b` or of `{"a", "b"}`.
fn is_list_without_brackets(before: &str) -> bool {
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or(before).trim_start();
    let is_set =
        before.trim_end_matches(|letter| letter != '{').ends_with("= {") && statement.starts_with('"');
    is_set || statement.starts_with("return ") && !has_open_bracket(statement)
}

/// Returns `true` if the text is `let name` or `const name` without a value.
fn is_declared(before: &str) -> bool {
    let before = before.rsplit([';', '{']).next().unwrap_or(before).trim();
    let name = before.strip_prefix("let ").or(before.strip_prefix("const ")).unwrap_or_default().trim();
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Returns `true` if a text ends within the condition of a statement.
fn is_condition(before: &str) -> bool {
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or(before).trim_start();
    let statement = statement.strip_prefix("else ").unwrap_or(statement).trim_start();
    ["if", "while", "until"]
        .iter()
        .any(|word| statement.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '(', '!'])))
}

/// Returns `true` if the text begins with the `=` of a named argument, not with a comparison.
fn is_assigned(at: &str) -> bool {
    at.strip_prefix('=').is_some_and(|rest| !rest.starts_with(['=', '>']))
}

/// Returns `true` for a destructuring declaration: `let [a, b] = …`.
fn is_pattern(kind: ParseFault<'_>, at: &str) -> bool {
    kind == ParseFault::MissingVariable && at.starts_with(['[', '{', '('])
}

/// Returns `true` if the last word of a text is this word.
fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}
