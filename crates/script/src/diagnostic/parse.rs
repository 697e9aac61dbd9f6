//! Parse errors with clear messages, and hints for common mistakes.

use super::codes::Code;
use super::finding::{Diagnostic, lower_first};
use super::{foreign, unclosed};
use crate::{hooks, spans, tokens};
use rhai::{LexError, ParseError, ParseErrorType, Position};
use std::path::Path;
use valvehouse_core::text::nearest;

/// Describes a parse error, with a hint for common mistakes.
pub(crate) fn of_parse(id: &str, path: &Path, source: &str, error: &ParseError) -> Diagnostic {
    let kind = error.err_type();
    let message = lower_first(&tokens::as_written(&kind.to_string()));
    let problem = Diagnostic::new(code_of(kind), id, path, message).at(source, error.position());
    if let Some(foreign) = foreign::describe(&problem, source) {
        return foreign;
    }
    if let Some(unbalanced) = unclosed::first(kind, &problem, source) {
        return unbalanced;
    }
    let help = help_for(&problem, source);
    match kind {
        ParseErrorType::MissingToken(token, _) if token == ";" || token == "," => {
            let problem = missing_before(problem, source, token);
            match divided(&problem) {
                true => Diagnostic {
                    code: Code::ForeignSyntax,
                    message: "`//` begins a comment".into(),
                    ..problem
                }
                .help("divide with `/`; the quotient of two integers is an integer"),
                false => problem.help(help),
            }
        }
        ParseErrorType::FnMissingBody(_) => at_signature(problem, source).help(help),
        _ => problem.help(help),
    }
}

/// Returns `true` if the rest of the line after a problem is a comment that looks like a divisor: `a // 2;`.
fn divided(problem: &Diagnostic) -> bool {
    let Some(column) = problem.column else { return false };
    let rest: String = problem.excerpt.chars().skip(column - 1).collect();
    let Some(divisor) = rest.trim_start().strip_prefix("//") else { return false };
    let divisor = divisor.trim();
    let (operand, is_ended) = match divisor.split_once(';') {
        Some((operand, _)) => (operand.trim(), true),
        None => (divisor.trim_end_matches([')', '}', ' ']), false),
    };
    let is_number = operand.parse::<f64>().is_ok();
    let is_operand = operand.chars().all(|letter| letter.is_alphanumeric() || "_.()[]".contains(letter));
    !operand.is_empty() && (is_number || is_operand && is_ended)
}

/// Moves the problem of a function without a body to the end of its parameters.
fn at_signature(problem: Diagnostic, source: &str) -> Diagnostic {
    let Some(line) = problem.line else { return problem };
    let end: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let code = spans::code_only(source);
    let Some(begins) = code[..end].rfind("fn ") else { return problem };
    match code[begins..].find(')') {
        Some(close) => problem.at_byte(source, begins + close + 1),
        None => problem,
    }
}

/// Moves the problem of a missing token from the start of the next line to the end of the line it belongs to.
fn missing_before(problem: Diagnostic, source: &str, token: &str) -> Diagnostic {
    let (Some(line), Some(column)) = (problem.line, problem.column) else { return problem };
    let begins_line = problem.excerpt.chars().take(column - 1).all(char::is_whitespace);
    let code = spans::code_only(source);
    let before = code.lines().take(line - 1).enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
    let end = before.filter(|_| begins_line).and_then(|(above, text)| {
        // The code has blanks in place of texts, so the end of the line is found in the source.
        let written = source.lines().nth(above)?;
        let comment = written.find("//").filter(|at| text[*at..].trim().is_empty());
        let column = written[..comment.unwrap_or(written.len())].trim_end().chars().count() + 1;
        Some(Position::new(u16::try_from(above + 1).ok()?, u16::try_from(column).ok()?))
    });
    match end {
        Some(end) => Diagnostic { message: format!("missing `{token}`"), ..problem }.at(source, end),
        None => problem,
    }
}

fn code_of(kind: &ParseErrorType) -> Code {
    match kind {
        ParseErrorType::VariableUndefined(_) | ParseErrorType::ModuleUndefined(_) => Code::UnknownVariable,
        ParseErrorType::Reserved(_)
        | ParseErrorType::ForbiddenVariable(_)
        | ParseErrorType::FnMissingName => Code::ReservedName,
        ParseErrorType::AssignmentToInvalidLHS(_) => Code::NotAssignable,
        ParseErrorType::AssignmentToConstant(_) => Code::ConstantWritten,
        ParseErrorType::FnDuplicatedDefinition(..)
        | ParseErrorType::FnDuplicatedParam(..)
        | ParseErrorType::DuplicatedProperty(_)
        | ParseErrorType::DuplicatedVariable(_)
        | ParseErrorType::VariableExists(_) => Code::Twice,
        ParseErrorType::ExprTooDeep
        | ParseErrorType::TooManyFunctions
        | ParseErrorType::LiteralTooLarge(..) => Code::TooComplex,
        ParseErrorType::BadInput(LexError::ImproperSymbol(_, description))
            if description.starts_with("more than") =>
        {
            Code::TooComplex
        }
        ParseErrorType::UnexpectedEOF | ParseErrorType::BadInput(LexError::UnterminatedString) => {
            Code::Unclosed
        }
        _ => Code::Syntax,
    }
}

/// Returns the hint for a mistake that is not syntax of another language.
fn help_for(problem: &Diagnostic, source: &str) -> String {
    let text = &problem.message;
    let plain = match problem.code {
        Code::NotAssignable => "assign it to a variable first: `let there = …; there.field = …`",
        Code::ReservedName => "rename it; the word is reserved by the language or the host",
        Code::ConstantWritten => {
            "copy it to a variable with `let`, or store changing values in `state` or kv"
        }
        Code::Twice => "rename or remove one of the two",
        Code::TooComplex if text.starts_with("size of the constants") => {
            "move expressions with the constant into a function, or use the constant in fewer places"
        }
        Code::TooComplex => "move a part of it to a function or a variable",
        Code::Unclosed if text == "open string is not terminated" => {
            match problem.excerpt.chars().nth(problem.column.unwrap_or(1) - 1) {
                Some('`') => "close it with another backtick",
                _ => "close it on the same line, or use backticks for a text of several lines",
            }
        }
        Code::Unclosed => "close it, or remove its opening character",
        Code::UnknownVariable => return help_for_unknown(problem, source),
        _ if problem.excerpt.trim_start().starts_with("///") => "use `//`; `///` is only allowed before `fn`",
        _ if text.starts_with("expecting ';'") => {
            "end a statement with `;`, and separate two values with an operator or a `,`"
        }
        _ if text.starts_with("expecting name of a property") => {
            "write a name after the `.`; write any other key as `map[\"key\"]`"
        }
        _ if text.starts_with("expecting name of a variable") => {
            "write a name that starts with a letter or `_` and is not a reserved word"
        }
        _ if text.starts_with("expecting ',' to separate the parameters") => {
            "separate parameters with `,`; remove types and defaults"
        }
        _ if text.starts_with("function definitions must be") => {
            "move the function to the top level, or write a closure: `let add = |a, b| a + b;`"
        }
        _ if text.starts_with("break statement") => "leave a function with `return`",
        _ if text.starts_with("unexpected '") && !text.is_ascii() => {
            "write names with a-z, A-Z, 0-9 and `_`; write any other key as `body[\"größe\"]`"
        }
        _ if text.starts_with("unexpected ';'") || text.starts_with("unexpected ')'") => {
            "add the missing value before it"
        }
        _ if text.starts_with("unexpected '}'") => {
            "add the missing value before it, or remove an extra `}` above"
        }
        _ if text.starts_with("invalid escape sequence") => {
            "write a pattern or a path in backticks, where `\\` is an ordinary character: `\\d+`"
        }
        _ if text.starts_with("expecting 'catch'") => {
            "write `catch (e) { … }`; there is no `finally`: write its statements after the block"
        }
        _ if text.starts_with("expecting body statement block") => {
            "write the body in braces: `fn inlet(body) { … }`"
        }
        _ if text.starts_with("expecting") => "insert the expected text at this position",
        _ => "check the text right before this place for a missing or an extra character",
    };
    plain.to_owned()
}

fn help_for_unknown(problem: &Diagnostic, source: &str) -> String {
    let text = &problem.message;
    let name = text.strip_prefix("undefined variable: ").or(text.strip_prefix("undefined module: "));
    let name = name.unwrap_or(text);
    if text.starts_with("undefined module") {
        return format!("import the module at the top of the file: `import \"lib/{name}\" as {name};`");
    }
    let known = hooks::param_names().chain(["body", "event", "ctx"]);
    if known.clone().any(|known| known == name) {
        return format!("add `{name}` to the parameters of the function");
    }
    if source.lines().any(|line| line.strip_prefix("let ").is_some_and(|rest| first_word(rest) == name)) {
        return format!(
            "a `let` outside of functions never runs; store values of a turn in `state`, values of several \
             turns in kv::, and fixed values in a constant: `const {} = …;`",
            name.to_uppercase()
        );
    }
    if let Some(near) = nearest(name, names_before(problem, source)).filter(|near| near.len() > 2) {
        return format!("did you mean `{near}`?");
    }
    if is_assigned(problem, name) {
        format!("declare a new variable: `let {name} = …;`")
    } else {
        format!("declare `{name}` as a parameter, with `let`, or as a literal constant")
    }
}

/// Returns the names that the enclosing function declares before a problem.
fn names_before<'a>(problem: &Diagnostic, source: &'a str) -> Vec<&'a str> {
    let before: Vec<&str> = source.lines().take(problem.line.unwrap_or(0)).collect();
    let begins = before.iter().rposition(|line| line.starts_with("fn ") || line.starts_with("private fn "));
    let mut names = Vec::new();
    for line in &before[begins.unwrap_or(0)..] {
        let code = line.split("//").next().unwrap_or(line);
        if let Some((_, params)) = code.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')) {
            names.extend(params.split(')').next().unwrap_or(params).split(',').map(str::trim));
        }
        for word in ["let ", "for ", "const "] {
            let declared = code.match_indices(word).map(|(at, _)| &code[at + word.len()..]);
            names.extend(declared.map(|rest| first_word(rest.trim_start_matches([' ', '(']))));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_word(text: &str) -> &str {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split_once(|letter| !is_part(letter)).map_or(text, |(word, _)| word)
}

/// Returns `true` if the line of a problem assigns to the name at its position.
fn is_assigned(problem: &Diagnostic, name: &str) -> bool {
    let rest = problem.excerpt.chars().skip(problem.column.unwrap_or(1) - 1 + name.chars().count());
    let rest: String = rest.collect();
    rest.trim_start().strip_prefix('=').is_some_and(|value| !value.starts_with('='))
}
