//! Allows words that Rhai reserves wherever only a name can occur.
//!
//! After `.` and `::`, and as the key of a map literal, any word is a name. Words that Rhai reserves but does not
//! use (`default`, `match`, `new` …) are names everywhere; functions get these names after parsing. The names can
//! also be recorded or changed.
//!
//! Also limits the number of parameters, keys and other parts of a file, because Rhai's parser or this crate needs
//! more than linear time for them. They are counted during parsing, which ends at the limit.

use super::parse_fault;
use parking_lot::Mutex;
use rhai::{
    AST, Engine, FnCallExpr, LexError, Module, ParseError, Position, Scope, ScriptFuncDef, Token,
    TokenizeState,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The words that Rhai reserves without using them: ordinary names in scripts.
const FREED: &[&str] = &[
    "call",
    "default",
    "debug",
    "print",
    "match",
    "case",
    "new",
    "use",
    "module",
    "package",
    "static",
    "shared",
    "sync",
    "async",
    "with",
    "null",
    "nil",
    "is",
    "var",
    "go",
    "thread",
    "spawn",
    "yield",
    "await",
    "super",
    "goto",
    "exit",
    "public",
    "protected",
    "begin",
    "end",
    "unless",
    "each",
    "then",
    "void",
    "Func",
    "extend",
];

/// The names of functions that log a value, which no script replaces.
const HOST: [&str; 2] = ["debug", "print"];

/// The end of a function's name during parsing if Rhai reserves the name.
const RESERVED: &str = "__reserved";

/// The operators that `||` and `&&` are read as in a file where one has a literal as an operand, which Rhai refuses.
const OR: &str = "||or";
const AND: &str = "&&and";

thread_local! {
    /// `true` while such a file is parsed.
    static HAS_LITERAL_OPERANDS: Cell<bool> = const { Cell::new(false) };
}

/// Makes an engine accept literals as operands of `||` and `&&`.
pub(crate) fn accept_literal_operands(engine: &mut Engine) {
    for (name, precedence) in [(OR, 30), (AND, 60)] {
        if let Err(error) = engine.register_custom_operator(name, precedence) {
            tracing::error!("cannot register an operator: {error}");
        }
    }
}

/// Returns `true` for such a `||`, `false` for such a `&&`, and `None` for other calls.
pub(crate) fn either(call: &FnCallExpr) -> Option<bool> {
    call.op_token.as_ref()?;
    match call.name.as_str() {
        OR => Some(true),
        AND => Some(false),
        _ => None,
    }
}

#[derive(Default)]
struct Progress {
    /// The limits of a file's parts, and their counts.
    bounds: Bounds,
    /// The previous token.
    last: Before,
    /// `true` if the name of a function follows.
    names_function: bool,
    /// `true` if the previous token was a name.
    follows_word: bool,
    /// `true` if the previous token may end a value.
    ends_value: bool,
    /// `true` after the `not` of `a not in b`.
    awaits_in: bool,
    /// The number of open brackets at a `not` whose operand is being read.
    negates: Option<usize>,
}

/// The kind of token before a word.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) enum Before {
    /// `.`, `?.` or `::`
    Access,
    /// `#{`, or `,` within a map literal.
    Key,
    #[default]
    Other,
}

/// A name in a file.
#[derive(Debug)]
pub struct NameToken {
    pub(crate) name: String,
    pub(crate) position: Position,
    pub(crate) before: Before,
    /// `true` if `::` follows.
    pub(crate) before_colons: bool,
    /// `true` if `(` follows.
    pub(crate) before_bracket: bool,
}

/// The names of a file, in order.
pub type Words = Arc<Mutex<Vec<NameToken>>>;

/// Makes an engine read reserved words as names.
pub(crate) fn free_reserved_words(engine: &mut Engine) {
    let seen = Mutex::new(Progress::default());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| read(&mut seen.lock(), token, position));
}

/// Makes an engine read reserved words as names, and records the names it parses.
pub fn note_words(engine: &mut Engine) -> Words {
    let words = Words::default();
    let (seen, noted) = (Mutex::new(Progress::default()), words.clone());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| {
        let mut seen = seen.lock();
        let before = seen.last;
        let token = read(&mut seen, token, position);
        let mut words = noted.lock();
        if HAS_LITERAL_OPERANDS.get() && words.last().is_some_and(|last| position < last.position) {
            // The file is parsed again.
            words.clear();
        }
        match &token {
            Token::Identifier(name) => words.push(NameToken {
                name: name.strip_suffix(RESERVED).unwrap_or(name).to_owned(),
                position,
                before,
                before_colons: false,
                before_bracket: false,
            }),
            Token::DoubleColon | Token::LeftParen => {
                if let Some(word) = words.last_mut().filter(|_| seen.follows_word) {
                    word.before_colons = token == Token::DoubleColon;
                    word.before_bracket = token == Token::LeftParen;
                }
            }
            _ => {}
        }
        seen.follows_word = matches!(token, Token::Identifier(_));
        token
    });
    words
}

/// Parses a file on an engine that reads reserved words as names.
///
/// # Errors
/// Returns the first error of the parser.
pub fn compile(engine: &Engine, source: &str) -> Result<AST, ParseError> {
    compile_with_scope(engine, &Scope::new(), source)
}

thread_local! {
    /// The number of texts that this thread has parsed, for tests.
    pub static PARSES: Cell<usize> = const { Cell::new(0) };
}

/// Parses a file like [`compile`], with the names it may use.
///
/// # Errors
/// Returns the first error of the parser.
pub fn compile_with_scope(engine: &Engine, scope: &Scope<'_>, source: &str) -> Result<AST, ParseError> {
    PARSES.set(PARSES.get() + 1);
    let parsed = engine.compile_with_scope(scope, source).or_else(|error| {
        if !parse_fault::is_literal_operand(&error) {
            return Err(error);
        }
        HAS_LITERAL_OPERANDS.set(true);
        let parsed = engine.compile_with_scope(scope, source);
        HAS_LITERAL_OPERANDS.set(false);
        parsed
    });
    parsed.map(with_reserved_names)
}

/// Gives functions the reserved names that the source has, which Rhai only refuses while it parses.
fn with_reserved_names(ast: AST) -> AST {
    if !ast.iter_fn_def().any(|function| function.name.ends_with(RESERVED)) {
        return ast;
    }
    let mut module = Module::new();
    for function in ast.iter_fn_def() {
        let name = function.name.strip_suffix(RESERVED).unwrap_or(&function.name);
        module.set_script_fn(ScriptFuncDef { name: name.into(), ..ScriptFuncDef::clone(function) });
    }
    module.build_index();
    AST::new(ast.statements().to_vec(), module)
}

/// Removes what a reserved name has during parsing.
pub fn as_written(message: &str) -> String {
    message.replace(RESERVED, "")
}

/// Makes an engine read reserved words as names, and renames words at some positions.
pub fn rename_words(engine: &mut Engine, plan: RenamePlan) {
    let seen = Mutex::new(Progress::default());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| {
        let token = read(&mut seen.lock(), token, position);
        match (&token, plan.get(&position)) {
            (Token::Identifier(_), Some(name)) => Token::Identifier(Box::new(name.as_str().into())),
            (Token::StringConstant(_), Some(text)) => Token::StringConstant(Box::new(text.as_str().into())),
            _ => token,
        }
    });
}

fn read(seen: &mut Progress, token: Token, position: Position) -> Token {
    let names_function = std::mem::replace(&mut seen.names_function, token == Token::Fn);
    let ends_value = std::mem::take(&mut seen.ends_value);
    let is_free = seen.last == Before::Other && !names_function;
    if seen.compares_after_not(&token) {
        return refused("`not` before a comparison needs brackets: write `!(a == b)`");
    }
    let token = match token {
        Token::Or if ends_value => operator(Token::Or, OR),
        Token::And if ends_value => operator(Token::And, AND),
        // As in Python. After a value, no name can follow.
        Token::Identifier(word) if *word == "or" && ends_value && is_free => operator(Token::Or, OR),
        Token::Identifier(word) if *word == "and" && ends_value && is_free => operator(Token::And, AND),
        Token::Identifier(word) if *word == "not" && !ends_value && is_free => {
            seen.negates = Some(seen.bounds.open.len());
            Token::Bang
        }
        // `a not in b`: the `+` before `b` changes nothing.
        Token::Identifier(word) if *word == "not" && ends_value && is_free => {
            seen.awaits_in = true;
            Token::NotIn
        }
        Token::In if std::mem::take(&mut seen.awaits_in) => Token::UnaryPlus,
        _ if std::mem::take(&mut seen.awaits_in) => {
            return refused("`not` between two values: write `a !in b`");
        }
        Token::Identifier(word) if *word == "True" && is_free => Token::True,
        Token::Identifier(word) if *word == "False" && is_free => Token::False,
        Token::Identifier(word) if *word == "None" && is_free => Token::Unit,
        // A part of a list or text: `list[1:3]`.
        Token::Colon if seen.bounds.in_index() => Token::ExclusiveRange,
        Token::Reserved(word) if names_function && HOST.contains(&word.as_str()) => Token::Reserved(word),
        Token::Reserved(word) if names_function && FREED.contains(&word.as_str()) => {
            Token::Identifier(Box::new(format!("{word}{RESERVED}").into()))
        }
        Token::Reserved(word) if FREED.contains(&word.as_str()) => Token::Identifier(word),
        Token::Reserved(word) | Token::Custom(word) if seen.last != Before::Other && is_word(&word) => {
            Token::Identifier(word)
        }
        token if seen.last != Before::Other && token.is_literal() && is_word(token.literal_syntax()) => {
            Token::Identifier(Box::new(token.literal_syntax().into()))
        }
        token => token,
    };
    let token = seen.bounds.read(token, position);
    seen.ends_value = matches!(
        token,
        Token::Identifier(_)
            | Token::StringConstant(_)
            | Token::CharConstant(_)
            | Token::IntegerConstant(_)
            | Token::FloatConstant(_)
            | Token::True
            | Token::False
            | Token::Unit
            | Token::RightParen
            | Token::RightBracket
            | Token::RightBrace
    );
    seen.last = match token {
        Token::Period | Token::Elvis | Token::DoubleColon => Before::Access,
        Token::MapStart => Before::Key,
        Token::Comma if seen.bounds.in_map() => Before::Key,
        _ => Before::Other,
    };
    token
}

fn refused(why: &str) -> Token {
    Token::LexError(Box::new(LexError::ImproperSymbol(String::new(), why.to_owned())))
}

/// Returns the operator, or the one that takes literals.
fn operator(usual: Token, lenient: &str) -> Token {
    if HAS_LITERAL_OPERANDS.get() { Token::Custom(Box::new(lenient.into())) } else { usual }
}

impl Progress {
    /// Returns `true` for the comparison of `not a == b`, which Python negates as a whole.
    fn compares_after_not(&mut self, token: &Token) -> bool {
        let Some(depth) = self.negates else { return false };
        let here = self.bounds.open.len();
        let is_comparison = matches!(
            token,
            Token::EqualsTo
                | Token::NotEqualsTo
                | Token::LessThan
                | Token::LessThanEqualsTo
                | Token::GreaterThan
                | Token::GreaterThanEqualsTo
                | Token::In
        );
        let word = |name: &str| matches!(token, Token::Identifier(word) if **word == *name);
        let ends =
            matches!(token, Token::And | Token::Or | Token::LeftBrace | Token::Comma | Token::SemiColon)
                || word("and")
                || word("or");
        if here < depth || (here == depth && (ends || is_comparison)) {
            self.negates = None;
        }
        here == depth && is_comparison
    }
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The new names by their positions in a file.
pub type RenamePlan = HashMap<Position, String>;

/// The maximum number of parameters of one function: Rhai compares each with each.
const PARAMETERS: usize = 32;
/// The maximum number of arguments of one call.
const ARGUMENTS: usize = 64;
/// The maximum number of keys of one map literal.
const KEYS: usize = 2_000;
/// The maximum number of cases of all `switch` statements.
const CASES: usize = 2_000;
/// The maximum number of constants at the top level of a file.
const CONSTANTS: usize = 1_000;
/// The maximum number of variables in scope at any position.
const VARIABLES: usize = 256;
/// The maximum number of comparisons of names: each map key with the previous ones, each name with all variables.
const COMPARISONS: usize = 4_000_000;

/// The counts of the parts of a file that have been read.
#[derive(Default)]
pub(crate) struct Bounds {
    open: Vec<Open>,
    /// The construct that the next round bracket opens.
    next: Round,
    cases: usize,
    constants: usize,
    /// The number of variables in scope in the current function.
    variables: usize,
    comparisons: usize,
    at: Option<Position>,
    /// The number of names after a `|`, which may be the parameters of a closure.
    names: Option<usize>,
}

/// An open bracket, and the number of commas in it.
struct Open {
    what: Bracket,
    commas: usize,
    /// The number of variables before it: those declared within go out of scope.
    variables: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    Map,
    Parameters,
    Arguments,
    /// `[`
    Index,
    Other,
}

/// The construct that a round bracket opens.
#[derive(Default, Clone, Copy, PartialEq)]
enum Round {
    /// `fn name(` and `fn type.name(`
    Parameters,
    #[default]
    Arguments,
}

impl Bounds {
    /// Returns `true` if the innermost open bracket is a map literal.
    pub(crate) fn in_map(&self) -> bool {
        self.open.last().is_some_and(|open| open.what == Bracket::Map)
    }

    /// Returns `true` if the innermost open bracket is that of an index or list.
    fn in_index(&self) -> bool {
        self.open.last().is_some_and(|open| open.what == Bracket::Index)
    }

    /// Counts a token and returns it; returns an error token if it exceeds a limit.
    pub(crate) fn read(&mut self, token: Token, position: Position) -> Token {
        if self.at.is_some_and(|at| position < at) {
            // The same engine parses another file.
            *self = Self::default();
        }
        self.at = Some(position);
        match self.count(&token) {
            None => token,
            Some((most, what, help)) => {
                let message = format!("more than {most} {what}: {help}");
                Token::LexError(Box::new(LexError::ImproperSymbol(String::new(), message)))
            }
        }
    }

    fn count(&mut self, token: &Token) -> Option<(usize, &'static str, &'static str)> {
        self.names = match (self.names, token) {
            (_, Token::Pipe) => Some(1),
            (Some(names), Token::Comma) => Some(names + 1),
            (names, Token::Identifier(_)) => names,
            _ => None,
        };
        if self.names.is_some_and(|names| names > ARGUMENTS) {
            return Some((ARGUMENTS, "parameters of one closure", "pass one map instead"));
        }
        match token {
            Token::Fn => self.next = Round::Parameters,
            Token::MapStart => self.open(Bracket::Map),
            Token::LeftParen => {
                let what = match std::mem::take(&mut self.next) {
                    Round::Parameters => Bracket::Parameters,
                    Round::Arguments => Bracket::Arguments,
                };
                self.open(what);
            }
            Token::LeftBracket | Token::QuestionBracket => self.open(Bracket::Index),
            Token::LeftBrace => self.open(Bracket::Other),
            Token::RightBrace | Token::RightBracket | Token::RightParen => {
                if let Some(open) = self.open.pop() {
                    self.variables = open.variables;
                }
            }
            Token::Identifier(_) => return self.compare(self.constants + self.variables),
            Token::Comma => return self.comma(),
            Token::Let | Token::Const => {
                let (count, most) = match self.open.is_empty() {
                    true => (&mut self.constants, CONSTANTS),
                    false => (&mut self.variables, VARIABLES),
                };
                *count += 1;
                if *count > most {
                    let help = "store them in one map, or split the file";
                    return Some((most, "variables or constants in one scope", help));
                }
            }
            Token::DoubleArrow => {
                self.cases += 1;
                if self.cases > CASES {
                    return Some((CASES, "cases of `switch` in one file", "look the value up in a map"));
                }
            }
            _ => {}
        }
        None
    }

    fn open(&mut self, what: Bracket) {
        self.open.push(Open { what, commas: 0, variables: self.variables });
    }

    fn comma(&mut self) -> Option<(usize, &'static str, &'static str)> {
        let open = self.open.last_mut()?;
        open.commas += 1;
        let (most, what, help) = match open.what {
            Bracket::Map => (KEYS, "keys in one map", "store large data in valves or in kv"),
            Bracket::Parameters => (PARAMETERS, "parameters of one function", "pass one map instead"),
            Bracket::Arguments => (ARGUMENTS, "arguments of one call", "pass an array or a map instead"),
            Bracket::Index | Bracket::Other => return None,
        };
        if open.commas >= most {
            return Some((most, what, help));
        }
        let keys = if open.what == Bracket::Map { open.commas } else { 0 };
        self.compare(keys)
    }

    fn compare(&mut self, names: usize) -> Option<(usize, &'static str, &'static str)> {
        self.comparisons += names;
        let help = "split the file; this many keys, variables and constants take too long to read";
        (self.comparisons > COMPARISONS).then_some((COMPARISONS, "names to compare", help))
    }
}

#[cfg(test)]
mod tests {
    use crate::language;

    #[test]
    fn reserved_words_are_names_of_variables_keys_and_parameters() {
        let engine = language::engine([]);
        for word in
            ["call", "default", "match", "case", "new", "with", "is", "async", "yield", "module", "static"]
        {
            let code = format!(
                "fn f({word}) {{ {word} + 1 }} let {word} = 1; let m = #{{ {word}: {word} }}; f(m.{word}) + {word}"
            );
            assert_eq!(
                engine.eval::<i64>(&code).unwrap_or_else(|error| panic!("{word}: {error}")),
                3,
                "{word}"
            );
        }
    }

    #[test]
    fn reserved_words_are_names_of_functions() {
        let engine = language::engine([]);
        for word in ["default", "match", "case", "new", "with", "is", "async", "yield", "module", "static"] {
            let code = format!(
                "let n = {word}(1); fn {word}(x) {{ x + 1 }} n + helper(); \
                 fn helper() {{ {word}(1) }}"
            );
            let ast = super::compile(&engine, &code).unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(engine.eval_ast::<i64>(&ast).unwrap_or_else(|error| panic!("{word}: {error}")), 4);
        }
    }

    #[test]
    fn closures_are_still_called_with_call() {
        let engine = language::engine([]);
        assert_eq!(engine.eval::<i64>("let f = |x| x + 1; f.call(1) + call(f, 2)").unwrap(), 5);
    }
}
