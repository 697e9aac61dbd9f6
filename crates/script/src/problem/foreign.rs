//! Syntax of Python or JavaScript, and its counterpart here.

use super::codes::Code;
use super::diagnostic::Problem;
use valvehouse_core::words::nearest;

const NOTHING_TO_IMPORT: &str = "there is nothing to import from elsewhere: what a script may use is there, as in \
                                 json:: and http::; a file of your own: `import \"lib/words\" as words;`";

/// The same problem told as such a mistake.
pub(super) fn told(problem: &Problem, source: &str) -> Option<Problem> {
    if problem.code == Code::TooComplex {
        return None;
    }
    let foreign = |message: Option<String>, help: &str| {
        let message = message.unwrap_or_else(|| problem.message.clone());
        Some(Problem { code: Code::ForeignSyntax, message, ..problem.clone() }.help(help))
    };
    let line = problem.excerpt.trim_start();
    if ["def ", "class ", "async def", "from pydantic", "@"].iter().any(|word| line.starts_with(word)) {
        return foreign(
            Some("this is Python".into()),
            "a hook is `fn inlet(body) { … }` at the top level, a tool `fn handler(args) { … }`; docs/guide says how \
             to move a filter over",
        );
    }
    if ["function ", "export ", "var "].iter().any(|word| line.starts_with(word)) {
        return foreign(
            Some("this is JavaScript".into()),
            "a hook is `fn inlet(body) { … }` at the top level, a variable `let x = 1;`",
        );
    }
    if is_python_import(problem, source) {
        return foreign(None, NOTHING_TO_IMPORT);
    }
    if let Some(help) = of_name(problem).or_else(|| of_message(problem)) {
        return foreign(None, help);
    }
    if problem.message.starts_with("undefined variable") {
        return None;
    }
    let (what, help) = of_place(problem)?;
    foreign(what.map(str::to_owned), help)
}

/// Returns `true` if the statement that ends at a problem is Python's `import x`: the parser complains where
/// the next one begins.
fn is_python_import(problem: &Problem, source: &str) -> bool {
    let until = source.lines().take(problem.line.unwrap_or(0)).filter(|line| !line.trim().is_empty());
    let mut lines = until.collect::<Vec<_>>().into_iter().rev().take(2);
    lines.any(|line| {
        let line = line.trim_start();
        (line.starts_with("import ") || line.starts_with("from ")) && !line.contains(['"', ';', '('])
    })
}

fn of_message(problem: &Problem) -> Option<&'static str> {
    let text = problem.message.as_str();
    if text.starts_with("invalid character: '") {
        return Some("write text in double quotes or backticks; single quotes are for one character");
    }
    match text {
        "'#' is a reserved symbol" => Some("a comment begins with `//`"),
        "unexpected 'try'" => Some("`try` has no value; declare the variable before and set it inside"),
        "unknown operator: '?'" => {
            Some("write `if a { b } else { c }`, which has a value; `a ?? b` is `b` if `a` is ()")
        }
        "'++' is a reserved symbol" | "unknown operator: '++'" => Some("write `x += 1`"),
        "'===' is a reserved symbol" => Some("write `==`"),
        "'!==' is a reserved symbol" => Some("write `!=`"),
        "'var' is a reserved keyword" => Some("a variable is declared with `let`"),
        "'null' is a reserved keyword" | "'nil' is a reserved keyword" => Some("the empty value is `()`"),
        "'is' is a reserved keyword" => Some("write `==`; the empty value is `()`, as in `x == ()`"),
        "'async' is a reserved keyword" | "'await' is a reserved keyword" => {
            Some("use plain `fn`; calls wait without `await`")
        }
        "'new' is a reserved keyword" => Some("there are no classes; a map is `#{ key: value }`"),
        "'with' is a reserved keyword" => {
            Some("there is nothing to open or close: files::read(path) gives the text")
        }
        _ => None,
    }
}

/// Returns the counterpart of another language's word.
fn of_name(problem: &Problem) -> Option<&'static str> {
    let help = match problem.message.strip_prefix("undefined variable: ")? {
        "null" | "None" | "nil" | "undefined" | "none" => "the empty value is `()`",
        "True" | "False" => "write `true` and `false`",
        "elif" => "write `else if`",
        "self" => "there is no `self`: a hook has its value as a parameter, and its settings as `valves`",
        "csv" | "json" | "jwt" | "time" | "random" | "regex" | "text" | "hash" | "base64" | "url"
        | "html" => "call functions of a module with `::`, as in json::stringify(value)",
        "JSON" => "json::parse(text) and json::stringify(value)",
        "re" => "patterns are in regex::, as in regex::find_all(text, pattern)",
        "requests" | "httpx" | "fetch" | "urllib" => {
            "use http::get(url), with `requirements: http` in the opening comment"
        }
        "os" => "variables are in env::get(name), files in files::read(path)",
        "console" | "logger" | "logging" => "write to the log with print(text) or log::info(text)",
        "math" | "Math" => "`x.sqrt()`, `x.floor()`, `x.abs()`, PI()",
        "datetime" | "Date" => "time::unix(), time::iso(), time::format(unix, \"%Y-%m-%d\")",
        "not" => "not is `!`, as in `!(a in b)`",
        _ => return None,
    };
    Some(help)
}

/// Explains a problem by the words around its place: the message, where the parser does not know it, and the
/// hint.
fn of_place(problem: &Problem) -> Option<(Option<&'static str>, &'static str)> {
    let at = problem.excerpt.chars().skip(problem.column? - 1).collect::<String>();
    let before = problem.excerpt.chars().take(problem.column? - 1).collect::<String>();
    let before = before.trim_end();
    let line = problem.excerpt.trim();
    let told = |what, help| Some((Some(what), help));
    match at.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()? {
        word if word.starts_with("except") => {
            return told("`except` is not a word of this language", "write `catch (e) { … }`");
        }
        "for" if before.contains('[') => {
            return told(
                "list comprehensions are not supported",
                "`list.map(|x| x * 2)` makes a list of a list",
            );
        }
        "and" => return told("`and` is not an operator here", "and is `&&`"),
        "or" => return told("`or` is not an operator here", "or is `||`; `a ?? b` is `b` if `a` is ()"),
        "not" => return told("`not` is not an operator here", "not is `!`, as in `!(a in b)`"),
        _ if before.ends_with("not") || at.contains("\" not in ") => {
            return told("`not` is not an operator here", "not is `!`, as in `!(a in b)`");
        }
        _ if before.ends_with("elif") => {
            return told("`elif` is not a word of this language", "write `else if`");
        }
        _ if at.starts_with('"') && ["if", "while"].iter().any(|word| ends_with_word(before, word)) => {
            return told("a text is not a condition", "compare it: `if text != \"\" { … }`");
        }
        "if" if !before.is_empty() && at.contains(" else ") && !line.starts_with("if ") => {
            return told(
                "a conditional expression cannot follow its value",
                "write `let x = if condition { a } else { b };`",
            );
        }
        _ if ends_with_word(before, "lambda") || at.starts_with("lambda ") => {
            return told("`lambda` is not a word of this language", "a closure is `|x| x * 2`");
        }
        _ if before.contains("for ") && problem.message.contains("'in'") && at.starts_with(',') => {
            return told(
                "a `for` has one variable, or two in brackets",
                "write `for (item, index) in list { … }`",
            );
        }
        _ if at.starts_with('"') && ends_with_word(before, "f") => {
            return told("a text does not begin with `f`", "interpolation needs backticks: `Hello ${name}`");
        }
        _ if before.ends_with("raise") => {
            return told("`raise` is not a word of this language", "write `throw`");
        }
        _ if line.starts_with("import ") => return Some((None, NOTHING_TO_IMPORT)),
        "fn" if before.ends_with("async") => {
            return told(
                "`async` is not a word of this language",
                "use plain `fn`; calls wait without `await`",
            );
        }
        _ => {}
    }
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if begins(&["fn ", "if ", "for ", "while ", "else", "try"]) && line.ends_with(':') {
        return told("a block does not begin with `:`", "use braces: `if a { … }`, `fn inlet(body) { … }`");
    }
    let bracket = before.rfind('[').filter(|open| !before[*open..].contains([']', '{', '"']));
    if bracket.is_some() && (at.starts_with(':') || at.starts_with(']') && before.ends_with(':')) {
        return told(
            "slices with `:` are not supported",
            "`list[1..3]`, `list.tail(4)` for the last four, `list.extract(start, count)`, `text.sub_string(start, count)`",
        );
    }
    let opened = before.rfind('{').filter(|brace| !before[..*brace].ends_with('#'));
    if at.starts_with(':') && opened.is_some() {
        return told("`{` opens a block here, not a map", "a map is written `#{ key: value }`");
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = before.rsplit_once(|letter| !is_part(letter)).map_or(before, |(_, word)| word);
    let is_given_a_value = at.trim_start_matches(is_part).trim_start().starts_with("= ");
    if (word == "var" || nearest(word, ["let"]).is_some()) && is_given_a_value {
        return told("invalid declaration of a variable", "write `let name = value;`");
    }
    if at.starts_with("=>") {
        return told("`=>` is not the syntax of a closure", "a closure is `|x| x * 2`");
    }
    if problem.message.starts_with("'===' is") || problem.message.starts_with("'!==' is") {
        return told("there is only one equality operator", "write `==`, or `!=`; the empty value is `()`");
    }
    None
}

/// Returns `true` if a text ends with this word, and not with a longer one.
fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

/// Returns the counterpart of another language's function.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    Some(match name {
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
        "format" => "interpolation needs backticks: `Hello ${name}`",
        "range" => "`0..n` counts from 0 to n - 1: `for i in 0..n { … }`",
        "sorted" => "`list.order()` gives a sorted copy, `list.order(|a, b| a.x - b.x)` by what you like",
        "sum" => "`list.reduce(|sum, x| (sum ?? 0) + x)`",
        "enumerate" => "`for (item, index) in list { … }`",
        "isinstance" | "type" | "typeof" => "`type_of(value)` is a text: \"string\", \"array\", \"map\" …",
        "any" => "`list.some(|x| …)`",
        "reversed" => "`let back = list.copy(); back.reverse();`",
        "list" => "an array is `[a, b]`; `map.keys()` and `text.split(\",\")` give arrays",
        "dict" => "a map is written `#{ key: value }`",
        "bool" => "compare it: `x != ()`, `x != \"\"`, `!empty(x)`",
        "hasattr" => "`\"key\" in map`",
        "getattr" => "`map[\"key\"] ?? value`",
        "open" => "files::read(path), with `requirements: files` in the opening comment",
        "sleep" => "time::sleep(milliseconds)",
        "gather" => "parallel([|| …, || …])",
        "create_task" => "what waits beside each other: parallel([|| …, || …])",
        "int" | "to_int" => "`parse_int(text)`",
        "float" | "to_float" => "`parse_float(text)`",
        _ => return None,
    })
}
