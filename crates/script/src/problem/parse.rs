//! Errors of the parser in words of ours, with hints for the usual mistakes.

use super::codes::Code;
use super::diagnostic::{Problem, lower_first};
use super::{foreign, unclosed};
use crate::{hooks, pieces};
use rhai::{LexError, ParseError, ParseErrorType, Position};
use std::path::Path;
use valvehouse_core::words::nearest;

/// Describes a parse error, with a hint for the usual ones.
pub(crate) fn of_parse(id: &str, path: &Path, source: &str, error: &ParseError) -> Problem {
    let kind = error.err_type();
    let message = lower_first(&kind.to_string());
    let problem = Problem::new(code_of(kind), id, path, message).at(source, error.position());
    if let Some(foreign) = foreign::told(&problem, source) {
        return foreign;
    }
    if let Some(unbalanced) = unclosed::first(kind, &problem, source) {
        return unbalanced;
    }
    let help = help_for(&problem, source);
    match kind {
        ParseErrorType::MissingToken(token, _) if token == ";" || token == "," => {
            missing_before(problem, source, token).help(help)
        }
        _ => problem.help(help),
    }
}

/// Moves a problem of something missing at the end of a line there, from where the next line begins.
fn missing_before(problem: Problem, source: &str, token: &str) -> Problem {
    let (Some(line), Some(column)) = (problem.line, problem.column) else { return problem };
    let begins_line = problem.excerpt.chars().take(column - 1).all(char::is_whitespace);
    let code = pieces::code_only(source);
    let before = code.lines().take(line - 1).enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
    let end = before.filter(|_| begins_line).and_then(|(above, text)| {
        // Texts are blank in the code alone: the line itself ends where it ends.
        let written = source.lines().nth(above)?;
        let comment = written.find("//").filter(|at| text[*at..].trim().is_empty());
        let column = written[..comment.unwrap_or(written.len())].trim_end().chars().count() + 1;
        Some(Position::new(u16::try_from(above + 1).ok()?, u16::try_from(column).ok()?))
    });
    match end {
        Some(end) => Problem { message: format!("a `{token}` is missing here"), ..problem }.at(source, end),
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
        ParseErrorType::BadInput(LexError::ImproperSymbol(_, told)) if told.starts_with("more than") => {
            Code::TooComplex
        }
        ParseErrorType::UnexpectedEOF | ParseErrorType::BadInput(LexError::UnterminatedString) => {
            Code::Unclosed
        }
        _ => Code::Syntax,
    }
}

/// Returns the hint for a script that is written in the right language.
fn help_for(problem: &Problem, source: &str) -> String {
    let text = &problem.message;
    let plain = match problem.code {
        Code::NotAssignable => "put it into a variable first: `let there = …; there.field = …`",
        Code::ReservedName => "that word is the language's or the host's own; rename it",
        Code::ConstantWritten => {
            "copy it to a variable with `let`, or store changing values in `state` or kv"
        }
        Code::Twice => "rename one of the two, or take one away",
        Code::TooComplex if text.starts_with("size of the constants") => {
            "put what is computed from a constant into a function, or use the constant in fewer places"
        }
        Code::TooComplex => "take it apart: part of it in a function, or in a variable, of its own",
        Code::Unclosed if text == "open string is not terminated" => {
            match problem.excerpt.chars().nth(problem.column.unwrap_or(1) - 1) {
                Some('`') => "close it with another backtick",
                _ => "close it on its line; a text over several lines stands in backticks",
            }
        }
        Code::Unclosed => "close it, or take away what opens it",
        Code::UnknownVariable => return help_for_unknown(problem, source),
        _ if problem.excerpt.trim_start().starts_with("///") => "`///` may only stand before `fn`; use `//`",
        _ if text.starts_with("expecting ';'") => {
            "a statement ends with `;`, and between two values stands an operator or a `,`"
        }
        _ if text.starts_with("expecting name of a property") => {
            "behind a `.` stands a name; a key that is none is written `map[\"key\"]`"
        }
        _ if text.starts_with("expecting name of a variable") => {
            "a name begins with a letter or `_`, and is not a word of the language"
        }
        _ if text.starts_with("expecting ',' to separate the parameters") => {
            "between two parameters stands a `,`; they have no types and no defaults"
        }
        _ if text.starts_with("function definitions must be") => {
            "write the function outside of all others, or make it a closure: `let add = |a, b| a + b;`"
        }
        _ if text.starts_with("break statement") => "leave a function with `return`",
        _ if text.starts_with("unexpected '") && !text.is_ascii() => {
            "names are of a-z, A-Z, 0-9 and `_`; any other key is written `body[\"größe\"]`"
        }
        _ if text.starts_with("unexpected ';'") || text.starts_with("unexpected ')'") => {
            "a value is missing right before it"
        }
        _ if text.starts_with("unexpected '}'") => {
            "a value is missing right before it, or a `}` too many stands above"
        }
        _ if text.starts_with("expecting") => "put in what is missing, right before this place",
        _ => "look at what stands right before this place: something is missing there, or too much",
    };
    plain.to_owned()
}

fn help_for_unknown(problem: &Problem, source: &str) -> String {
    let text = &problem.message;
    let name = text.strip_prefix("undefined variable: ").or(text.strip_prefix("undefined module: "));
    let name = name.unwrap_or(text);
    if text.starts_with("undefined module") {
        return format!(
            "`{name}` is neither a module of the host's nor imported: `import \"lib/{name}\" as {name};` at the top"
        );
    }
    let known = hooks::param_names().chain(["body", "event", "ctx"]);
    if known.clone().any(|known| known == name) {
        return format!("a function is given what it asks for: write `{name}` into its parentheses");
    }
    if source.lines().any(|line| line.strip_prefix("let ").is_some_and(|rest| first_word(rest) == name)) {
        return format!(
            "a `let` outside of functions never runs; keep what lasts for a turn in `state`, what lasts longer in kv::, and make what never changes a `const`: `const {} = …;`",
            name.to_uppercase()
        );
    }
    if let Some(near) = nearest(name, names_before(problem, source)).filter(|near| near.len() > 2) {
        return format!("did you mean `{near}`?");
    }
    if is_assigned(problem, name) {
        format!("a new variable is declared where it begins: `let {name} = …;`")
    } else {
        format!("`{name}` is neither a parameter, a `let`, nor a literal constant of this file")
    }
}

/// The names that the function around a problem declares before it.
fn names_before<'a>(problem: &Problem, source: &'a str) -> Vec<&'a str> {
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

/// Returns `true` if the line of a problem gives a value to the name at its place.
fn is_assigned(problem: &Problem, name: &str) -> bool {
    let rest = problem.excerpt.chars().skip(problem.column.unwrap_or(1) - 1 + name.chars().count());
    let rest: String = rest.collect();
    rest.trim_start().strip_prefix('=').is_some_and(|value| !value.starts_with('='))
}
