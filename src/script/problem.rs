//! What is wrong with a script, where, and how to mend it.

use super::rename;
use super::sources::Sources;
use rhai::{EvalAltResult, ParseError, Position};
use std::path::{Path, PathBuf};

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The script does not load.
    Error,
    /// It loads, and something about it is surely not meant.
    Warning,
}

/// Most problems of one sort that a file is told: nobody reads more, and each costs a look at it.
pub(super) const MOST_TOLD: usize = 50;

/// Something wrong with a script file.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The plugin's id, the file's stem.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// 1-based, where the place is known.
    pub line: Option<usize>,
    /// 1-based, in characters.
    pub column: Option<usize>,
    /// The line itself.
    pub excerpt: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
    /// How much it matters.
    pub severity: Severity,
    /// The command that grants what is missing, where that is all that is wrong.
    pub grant: Option<String>,
}

impl Problem {
    /// A problem with a file as a whole.
    pub fn new(id: &str, path: &Path, message: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            path: path.into(),
            line: None,
            column: None,
            excerpt: String::new(),
            message: message.into(),
            help: None,
            severity: Severity::Error,
            grant: None,
        }
    }

    /// The same, with how to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, for want of what this command grants.
    #[must_use]
    pub(crate) fn granted_by(mut self, command: impl Into<String>) -> Self {
        self.grant = Some(command.into());
        self
    }

    /// The same as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same at a place of its source.
    #[must_use]
    pub(crate) fn at(mut self, source: &str, position: Position) -> Self {
        self.line = position.line();
        self.column = position.position().or(position.line().map(|_| 1));
        if let Some(line) = self.line {
            self.excerpt = source.lines().nth(line - 1).unwrap_or_default().trim_end().to_owned();
        }
        self
    }

    /// The same at the first place where a word stands in the source.
    #[must_use]
    pub(crate) fn at_word(self, source: &str, word: &str) -> Self {
        let found = source.lines().enumerate().find_map(|(index, line)| {
            let column = find_word(line, word)?;
            Some((index + 1, line[..column].chars().count() + 1))
        });
        match found {
            Some((line, column)) => match (u16::try_from(line), u16::try_from(column)) {
                (Ok(line), Ok(column)) => self.at(source, Position::new(line, column)),
                _ => self,
            },
            None => self,
        }
    }

    /// The same where a function is defined.
    #[must_use]
    pub(crate) fn at_function(self, source: &str, name: &str) -> Self {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let found = source.match_indices(name).find_map(|(at, _)| {
            let before = source[..at].trim_end();
            let is_whole = before.len() < at && !source[at + name.len()..].starts_with(is_part);
            let word = before.strip_suffix("fn").filter(|before| !before.ends_with(is_part));
            word.filter(|_| is_whole).map(|_| at)
        });
        match found {
            Some(at) => self.at_byte(source, at),
            None => self.at_word(source, name),
        }
    }

    /// The same at a byte of its source.
    #[must_use]
    pub(crate) fn at_byte(self, source: &str, at: usize) -> Self {
        match position_at(source, at) {
            Some(position) => self.at(source, position),
            None => self,
        }
    }

    /// The same at the place that a path of names leads to, each looked for behind the one before;
    /// where one is not found, at the last that is.
    #[must_use]
    pub(crate) fn at_path(self, source: &str, path: &str) -> Self {
        let mut from = 0;
        let mut found = None;
        for word in
            path.split(['.', '[', ']']).filter(|word| !word.is_empty() && word.parse::<u32>().is_err())
        {
            let Some(at) = find_word(&source[from..], word) else { break };
            found = Some(from + at);
            from += at + word.len();
        }
        match found {
            Some(at) => self.at_byte(source, at),
            None => self,
        }
    }

    /// `filters/x.rhai:3:12`
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.path.display()),
            (Some(line), None) => format!("{}:{line}", self.path.display()),
            _ => self.path.display().to_string(),
        }
    }

    /// How many characters the word at the place has.
    pub fn width(&self) -> usize {
        let Some(column) = self.column else { return 1 };
        let rest = self.excerpt.chars().skip(column - 1);
        rest.take_while(|letter| letter.is_alphanumeric() || *letter == '_').count().max(1)
    }
}

/// Place, message, the line, a caret, the help.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {word}: {}", self.place(), self.message)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            // Long lines are shown around the place.
            let from = column.saturating_sub(60);
            let shown: String = self.excerpt.chars().skip(from).take(100).collect();
            let shown = shown.replace('\t', " ");
            let gutter = line.to_string();
            let blank = " ".repeat(gutter.len());
            let indent = " ".repeat(column - 1 - from.min(column - 1));
            write!(f, "\n {blank} |\n {gutter} | {shown}\n {blank} | {indent}{}", "^".repeat(self.width()))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

fn find_word(line: &str, word: &str) -> Option<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word)
        .map(|(at, _)| at)
        .find(|&at| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// What a parse error says, and what mends the usual ones.
pub(crate) fn of_parse(id: &str, path: &Path, source: &str, error: &ParseError) -> Problem {
    let message = lower_first(&error.err_type().to_string());
    let problem = Problem::new(id, path, message).at(source, error.position());
    match help_for(&problem, source) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

const NOTHING_TO_IMPORT: &str = "there is nothing to import from elsewhere: what a script may use is there, as in \
                                 json:: and http::; a file of your own: `import \"lib/words\" as words;`";

fn help_for(problem: &Problem, source: &str) -> Option<String> {
    let text = &problem.message;
    let line = problem.excerpt.trim_start();
    if line.starts_with("def ") || line.starts_with("class ") || line.starts_with("async def") {
        return Some(
            "this is Python; a hook is `fn inlet(body) { … }` at the top level, a tool `fn handler(args) { … }`"
                .into(),
        );
    }
    if is_python_import(problem, source) {
        return Some(NOTHING_TO_IMPORT.into());
    }
    if line.starts_with("///") {
        return Some("`///` may only stand before `fn`; use `//`".into());
    }
    if let Some(help) = help_for_foreign(problem) {
        return Some(help.into());
    }
    if text.contains("cannot be assigned to") {
        return Some("put it into a variable first: `let there = …; there.field = …`".into());
    }
    if text.starts_with("expecting function name") {
        return Some("that word is the language's or the host's own; rename it".into());
    }
    if text.contains("';'") {
        return Some("a statement ends with `;`".into());
    }
    if let Some(name) =
        text.strip_prefix("undefined variable: ").or(text.strip_prefix("variable not found: "))
    {
        return Some(if is_assigned(problem, name) {
            format!("a new variable is declared where it begins: `let {name} = …;`")
        } else {
            format!("`{name}` is neither a parameter, a `let`, nor a literal constant of this file")
        });
    }
    None
}

/// Whether the statement that ends at a problem is Python's `import x`: the parser complains where the
/// next one begins.
fn is_python_import(problem: &Problem, source: &str) -> bool {
    let until = source.lines().take(problem.line.unwrap_or(0)).filter(|line| !line.trim().is_empty());
    let mut lines = until.collect::<Vec<_>>().into_iter().rev().take(2);
    lines.any(|line| {
        let line = line.trim_start();
        (line.starts_with("import ") || line.starts_with("from ")) && !line.contains(['"', ';', '('])
    })
}

/// Whether the line of a problem gives a value to the name at its place.
fn is_assigned(problem: &Problem, name: &str) -> bool {
    let rest = problem.excerpt.chars().skip(problem.column.unwrap_or(1) - 1 + name.chars().count());
    let rest: String = rest.collect();
    rest.trim_start().strip_prefix('=').is_some_and(|value| !value.starts_with('='))
}

/// How to write here what was written as in Python or JavaScript.
fn help_for_foreign(problem: &Problem) -> Option<&'static str> {
    let text = &problem.message;
    if text.starts_with("invalid character: '") {
        return Some("text stands in double quotes or backticks; single quotes hold one character");
    }
    if text == "'#' is a reserved symbol" {
        return Some("a comment begins with `//`");
    }
    if text == "unexpected 'try'" {
        return Some("`try` has no value; declare the variable before and set it inside");
    }
    if text == "open string is not terminated" {
        return Some("a text over several lines stands in backticks");
    }
    if text == "unknown operator: '?'" {
        return Some("a choice is `if a { b } else { c }`, also as a value; `a ?? b` is `b` where `a` is ()");
    }
    match text.strip_prefix("undefined variable: ") {
        Some("null" | "None" | "nil" | "undefined" | "none") => return Some("nothing is written `()`"),
        Some("True" | "False") => return Some("write `true` and `false`"),
        Some("elif") => return Some("write `else if`"),
        Some("json" | "time" | "random" | "regex" | "text" | "hash" | "base64" | "url" | "html") => {
            return Some("a module's functions stand behind `::`, as in json::stringify(value)");
        }
        Some("re") => return Some("patterns are in regex::, as in regex::find_all(text, pattern)"),
        Some("requests" | "httpx" | "fetch" | "urllib") => {
            return Some(
                "other hosts are asked by http::get(url), with `requirements: http` in the opening comment",
            );
        }
        Some("os") => return Some("variables are in env::get(name), files in files::read(path)"),
        Some("console" | "logger" | "logging") => {
            return Some("write to the log with print(text) or log::info(text)");
        }
        Some("math") => return Some("`x.sqrt()`, `x.floor()`, `x.abs()`, PI()"),
        Some("not") => return Some("not is `!`, as in `!(a in b)`"),
        _ => {}
    }
    if text.starts_with("undefined variable") {
        return None;
    }
    let at = problem.excerpt.chars().skip(problem.column? - 1).collect::<String>();
    let before = problem.excerpt.chars().take(problem.column? - 1).collect::<String>();
    let before = before.trim_end();
    match at.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()? {
        word if word.starts_with("except") => return Some("write `catch (e) { … }`"),
        "for" if before.contains('[') => return Some("`list.map(|x| x * 2)` makes a list of a list"),
        "and" => return Some("and is `&&`"),
        "or" => return Some("or is `||`; `a ?? b` is `b` where `a` is ()"),
        "not" => return Some("not is `!`, as in `!(a in b)`"),
        _ if before.ends_with("not") || at.contains("\" not in ") => {
            return Some("not is `!`, as in `!(a in b)`");
        }
        _ if before.ends_with("elif") => return Some("write `else if`"),
        _ if at.starts_with('"') && before.ends_with('f') => {
            return Some("a text with values in it stands in backticks: `Hello ${name}`");
        }
        _ if before.ends_with("raise") => return Some("write `throw`"),
        _ if problem.excerpt.trim_start().starts_with("import ") => {
            return Some(NOTHING_TO_IMPORT);
        }
        "fn" if before.ends_with("async") => {
            return Some("functions are plain `fn`; what waits, waits by itself");
        }
        _ => {}
    }
    let opened = before.rfind('{').filter(|brace| !before[..*brace].ends_with('#'));
    if at.starts_with(':') && opened.is_some() {
        return Some("a map is written `#{ key: value }`");
    }
    None
}

/// An error while a script ran, told for the log: message, function, file:line:column, the calls.
///
/// Functions of the host are not told where they are called: the source is asked for them.
pub(crate) fn of_run(sources: &Sources, function: &str, error: &EvalAltResult) -> String {
    let root = error.unwrap_inner();
    let message = message_of(root);
    let mut frame = error;
    let mut source = sources.of(function, "", sources.script());
    let mut calls = Vec::new();
    while let EvalAltResult::ErrorInFunctionCall(name, given, inner, position) = frame {
        calls.push(format!("{} called at {}", rename::as_written(name), place(&source.path, *position)));
        source = sources.of(name, given, source);
        frame = inner;
    }
    let position = match root.position() {
        Position::NONE => only_call(&source.text, &message).unwrap_or(Position::NONE),
        position => position,
    };
    let mut text = format!("{}: {}", place(&source.path, position), lower_first(&message));
    let function = if function.starts_with("anon$") { "a closure" } else { function };
    text.push_str(&format!(", in {}", rename::as_written(function)));
    if let Some(help) = help_for_run(root) {
        text.push_str(&format!(" (help: {help})"));
    }
    if !calls.is_empty() {
        text.push_str(&format!(" ({})", calls.join(", ")));
    }
    text
}

/// Where `http::get` is called whose message begins with its name, when there is one place only.
fn only_call(source: &str, message: &str) -> Option<Position> {
    let name = message.split(": ").next().filter(|name| name.contains("::") && !name.contains(' '))?;
    let mut calls = source.match_indices(name);
    let (at, _) = calls.next()?;
    if calls.next().is_some() {
        return None;
    }
    position_at(source, at)
}

/// Line and column of a byte, where Rhai can count that far.
fn position_at(source: &str, at: usize) -> Option<Position> {
    let before = &source[..at];
    let line = u16::try_from(before.matches('\n').count() + 1).ok()?;
    let column = u16::try_from(before.rsplit('\n').next()?.chars().count() + 1).ok()?;
    Some(Position::new(line, column))
}

/// Whether any of these keeps a script from running.
pub(super) fn has_errors(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// What went wrong while a script ran, without saying where: for whoever must not know.
pub(super) fn summary_of_run(error: &EvalAltResult) -> String {
    lower_first(&message_of(error.unwrap_inner()))
}

fn message_of(error: &EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorTerminated(token, _) => token
            .read_lock::<super::budget::Exceeded>()
            .map_or("was ended".into(), |exceeded| exceeded.to_string()),
        EvalAltResult::ErrorRuntime(value, _) => match value.read_lock::<super::answer::Thrown>() {
            Some(thrown) => thrown.refusal.message.clone(),
            None => value.to_string(),
        },
        // The place is said by us, with the file.
        other => without_place(&other.to_string()).chars().take(2_000).collect(),
    }
}

/// What Rhai says, without its own way to say where: that names files of the operator, and a
/// caught error may be shown to anybody.
pub(super) fn without_place(text: &str) -> String {
    rename::as_written(cut_place(text))
}

fn cut_place(text: &str) -> &str {
    let text = text.split("\nin c").next().unwrap_or(text);
    let text = match text.rfind(" (line ") {
        Some(at) if text.ends_with(')') => &text[..at],
        _ => text,
    };
    match text.rfind(" @ '") {
        Some(at) if text.ends_with('\'') => &text[..at],
        _ => text,
    }
}

/// How to say here what is said otherwise in Python or JavaScript.
fn help_for_run(error: &EvalAltResult) -> Option<&'static str> {
    match error {
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            Some(match signature.split(" (").next().unwrap_or_default() {
                "append" | "add" => "`push(value)` adds one, `append(array)` adds all",
                "join" => "text::join(array, separator)",
                "first" => "`[0]` is the first",
                "items" | "entries" => "`for key in map { let value = map[key]; }`",
                "extend" | "concat" => "`append(array)` or `+`",
                "update" | "assign" => "`mixin(map)`",
                "startswith" | "startsWith" => "`starts_with(text)`",
                "endswith" | "endsWith" => "`ends_with(text)`",
                "lower" | "toLowerCase" => "`to_lower()`",
                "upper" | "toUpperCase" => "`to_upper()`",
                "strip" => "text::trim(text)",
                "includes" | "has" | "has_key" => "`contains(value)` or `value in it`",
                "length" | "size" => "`len()`",
                "substring" | "substr" | "slice" => "`sub_string(start, length)` or `[start..end]`",
                "str" | "toString" => "`to_string()` or `${…}` within backticks",
                "format" => "a text with values in it stands in backticks: `Hello ${name}`",
                "int" | "to_int" => "`parse_int(text)`",
                "float" | "to_float" => "`parse_float(text)`",
                _ => return None,
            })
        }
        EvalAltResult::ErrorDataRace(..) => Some(
            "a closure uses the variable that its chain begins with; give the start a name first: \
             `let keys = map.keys(); keys.map(|key| map[key])`",
        ),
        EvalAltResult::ErrorMismatchDataType(_, given, _) if given.contains("ops::range::Range") => {
            Some("an array that the script made is cut with `extract(start..end)`")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.ends_with("for type '()'") => {
            Some("what stands before the `.` is `()`, nothing; `?.` reads on only where there is something")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.contains("for type '()' to handle") => {
            Some("what stands before the last `.` is `()`, nothing; set it first, or use `ensure(path, #{})`")
        }
        _ => None,
    }
}

fn place(path: &Path, position: Position) -> String {
    match (position.line(), position.position()) {
        (Some(line), Some(column)) => format!("{}:{line}:{column}", path.display()),
        (Some(line), None) => format!("{}:{line}", path.display()),
        _ => path.display().to_string(),
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}
